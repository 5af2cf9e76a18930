"""Verdicts over a margin, with users missing, over segments."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.sequential import gate
from tables import cells


def sample(values: list[float] | np.ndarray, missing: int = 0) -> gate.UserSample:
    return gate.UserSample(gate.tally(np.asarray(values, dtype=float)), missing)


def gate_each(
    samples: list[gate.UserSample], margin: float, alpha: float
) -> tuple[gate.GateResult, ...]:
    return gate.gate_samples(
        {str(place): one for place, one in enumerate(samples)}, gate.Scale(0, 1), margin, alpha
    )


def gate_sample(one: gate.UserSample, margin: float, alpha: float) -> gate.GateResult:
    return gate_each([one], margin, alpha)[0]


VERDICTS = """
# value  users    missing  margin  verdict       reason
0.0      10       0        0.1     inconclusive  too_few
0.0      100      0        0.1     safe          decided
1.0      100      0        0.9     breach        decided
# Exactly at the margin: never.
0.25     1000000  0        0.25    inconclusive  too_few
0.0      0        0        0.5     inconclusive  no_data
0.0      0        40       0.5     inconclusive  no_data
0.0      1        0        0.5     inconclusive  too_few
# With the missing users at their worst.
0.0      990      10       0.05    safe          decided
0.0      900      100      0.05    inconclusive  no_data
# Too few users as well, but the missing alone may pass the margin.
0.0      10       5        0.1     inconclusive  no_data
# With the missing users at their best.
1.0      990      10       0.95    breach        decided
1.0      900      100      0.95    inconclusive  no_data
# With 5 users at their worst, mean 0.024, they are not safe yet.
0.0      200      0        0.05    safe          decided
0.0      200      5        0.05    inconclusive  no_data
"""


@pytest.mark.parametrize("row", cells(VERDICTS))
def test_so_many_equal_scores_and_missing_users_are_a_verdict_or_say_why_not(row):
    value, users, missing, margin = map(float, row[:4])
    found = gate_sample(sample(np.full(int(users), value), int(missing)), margin, 0.01)
    assert [found.verdict.value, found.reason.value] == row[4:]
    if users:
        best, worst = (
            value * users / (users + missing),
            (value * users + missing) / (users + missing),
        )
        assert (found.mean_best, found.mean_worst) == pytest.approx((best, worst))


def test_the_bounds_hold_every_value_that_the_missing_may_have():
    values = np.random.default_rng(1).random(300)
    with_missing = gate_sample(sample(values, missing=30), 0.5, 0.01)
    for fill in (0.0, 0.3, 1.0):
        filled = gate_sample(sample(np.append(values, np.full(30, fill))), 0.5, 0.01)
        assert with_missing.low <= filled.low + 1e-6
        assert filled.high <= with_missing.high + 1e-6


@settings(max_examples=25)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(0, 5))
def test_missing_filled_in_by_hand_is_the_same(values, missing):
    found = gate_sample(sample(values, missing), 0.4, 0.05)
    worst, best = (gate.tally(np.array(values + [fill] * missing)) for fill in (1.0, 0.0))
    assert found.evidence_safe * math.log(10) == pytest.approx(gate.log_capital(worst, 0.4))
    assert found.evidence_breach * math.log(10) == pytest.approx(
        gate.log_capital(best.flipped(), 0.6)
    )


def rejected(*e_values: float) -> list[int]:
    return np.flatnonzero(gate.reject([math.log(each) for each in e_values], 0.1)).tolist()


def test_e_bh_by_hand():
    """K = 3 at 0.1: one alone needs 30, two need 15 each, three need 10 each."""
    assert rejected(30.0, 1.0, 1.0) == [0]
    assert rejected(1.0, 15.0, 29.0) == [1, 2]
    assert rejected(10.0, 10.0, 10.0) == [0, 1, 2]
    assert rejected(29.0, 1.0, 1.0) == rejected(9.9, 10.0, 10.0) == rejected() == []


@given(st.lists(st.floats(-5, 12), min_size=1, max_size=8), st.floats(0.01, 0.5))
def test_e_bh_is_the_slow_definition(logs, alpha):
    count = len(logs)
    ranked = sorted(logs, reverse=True)
    fits = [
        k for k in range(1, count + 1) if ranked[k - 1] + math.log(k) >= math.log(count / alpha)
    ]
    assert gate.reject(logs, alpha).sum() == (max(fits) if fits else 0)


def test_all_segments_are_safe_exactly_where_each_is_by_itself():
    enough, few = sample(np.zeros(100)), sample(np.zeros(10))
    assert {each.verdict for each in gate_each([enough, enough, enough], 0.1, 0.01)} == {
        gate.GateVerdict.SAFE
    }
    assert [each.reason for each in gate_each([enough, few], 0.1, 0.01)] == [
        gate.GateReason.DECIDED,
        gate.GateReason.TOO_FEW,
    ]


def test_one_bad_segment_among_many_has_to_show_more_evidence():
    bad, good = sample(np.ones(9)), sample(np.full(200, 0.5))
    assert gate_sample(bad, 0.5, 0.1).verdict is gate.GateVerdict.BREACH
    assert gate_each([bad, *[good] * 30], 0.5, 0.1)[0].verdict is gate.GateVerdict.INCONCLUSIVE
