"""The e-detector of a standing question."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InputError
from monitor.sequential import STAKES, WEIGHTS, Detector, detect


def test_evidence_begins_with_one_bet_and_grows_by_hand() -> None:
    """Scores 1 and 1 at a mean of a half double nearly: M = y, then (y + 1) y with y = 1 + stake."""
    found = np.exp(detect(np.array([1.0, 1.0]), 0.5))
    gain = 1 + np.array(STAKES)
    assert found[0] == pytest.approx(np.average(gain, weights=WEIGHTS))
    assert found[1] == pytest.approx(np.average((gain + 1) * gain, weights=WEIGHTS))


def test_evidence_for_a_mean_of_1_after_zeros_is_lost_but_the_next_bet_is_fresh() -> None:
    found = np.exp(detect(np.array([0.0] * 50 + [1.0] * 10), 0.5))
    assert found[49] < 50
    assert found[-1] > 100


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(0, 30))
def test_in_parts_it_is_the_same_as_in_one(values: list[float], cut: int) -> None:
    scores = np.array(values)
    parts = Detector(0.3).after(scores[:cut]).after(scores[cut:])
    assert parts.log_evidence == pytest.approx(detect(scores, 0.3)[-1])


def test_the_recursion_is_the_definition() -> None:
    scores = np.random.default_rng(1).random(40)
    evidence = np.zeros(len(STAKES))
    for score in scores:
        evidence = (evidence + 1) * (1 + np.array(STAKES) * (score - 0.4) / 0.4)
    assert detect(scores, 0.4)[-1] == pytest.approx(math.log(np.average(evidence, weights=WEIGHTS)))


def test_it_fires_at_one_over_alpha_and_nobody_fires_before_a_score() -> None:
    quiet, risen = Detector(0.1), Detector(0.1).after(np.ones(20))
    assert not quiet.fires(0.01)
    assert risen.fires(0.01)
    with pytest.raises(InputError, match="no error rate"):
        quiet.fires(1.5)


def test_histories_are_followed_side_by_side() -> None:
    scores = np.random.default_rng(2).random((3, 4, 10))
    np.testing.assert_allclose(detect(scores, 0.5)[1, 2], detect(scores[1, 2], 0.5))


def test_evidence_stays_finite_over_a_hundred_thousand_scores() -> None:
    assert np.isfinite(detect(np.tile([0.0, 1.0], 50_000), 0.5)).all()
