import math

import numpy as np
import pytest
import scipy
from hypothesis import given, strategies as st

from monitor.model.errors import InputError
from monitor.model.rules import Direction
from monitor.statistics.reference.prediction import compute_reference, predict
from monitor.statistics.reference.thresholds import SAFETY, Budget, DropSearch, propose_thresholds
from reference.test_prediction import column

FIVE = compute_reference(column(1, 2, 3, 4, 5), column(0, 0, 0, 0, 0))


def test_a_threshold_is_the_textbook_prediction_limit_on_either_side():
    """3 - t(0.01; 4) sqrt(2.5 (1 + 1/5)).

    One run of mean 3 - x passes it half of the time where x is the distance.
    """
    found = propose_thresholds(FIVE, np.array([0.0]), 0.01, direction=Direction.BELOW, worst=-10.0)
    above = propose_thresholds(FIVE, np.array([0.0]), 0.01, direction=Direction.ABOVE, worst=16.0)

    assert (found.limit[0], found.expected[0]) == pytest.approx((-3.48990, 3), abs=1e-5)
    assert found.usually == pytest.approx(found.limit)
    assert found.nearly_always == pytest.approx(
        found.limit - scipy.stats.t.ppf(0.95, 4) * np.sqrt(2.5)
    )
    for name in ("limit", "nearly_always"):
        assert getattr(above, name) - 3 == pytest.approx(3 - getattr(found, name))
    assert above.least_alpha == pytest.approx(found.least_alpha)


def test_a_history_is_too_short_where_the_last_possible_value_is_passed_more_often_than_wanted():
    """A threshold at 0 would be passed with P(t4 <= -3 / sqrt 3) = 0.0791."""
    found = propose_thresholds(FIVE, np.array([0.0]), 0.01, direction=Direction.BELOW, worst=0.0)
    assert found.least_alpha == pytest.approx([scipy.stats.t.cdf(-np.sqrt(3), 4)])
    one = propose_thresholds(
        compute_reference(column(0.5), column(0.1)),
        np.array([0.1]),
        0.01,
        direction=Direction.BELOW,
        worst=-1.0,
    )
    assert np.isnan(one.limit).all()


def test_a_threshold_bears_the_largest_sampling_error():
    narrow, wide = (
        propose_thresholds(
            FIVE, np.array([error]), 0.01, direction=Direction.BELOW, worst=-99.0
        ).limit
        for error in (0.0, 1.0)
    )
    assert narrow > wide == pytest.approx(predict(FIVE, np.array([1.0]), 0.01).low)


def test_half_goes_to_all_and_the_rest_to_the_others_alike():
    budget = Budget(runs=100, segments=["all", "a", "b"], looks={"drop": 3, "trend": 1})
    shares = [budget.alpha("all", "drop"), budget.alpha("b", "trend")]
    assert shares == pytest.approx([0.5 * 0.75 / (SAFETY * 100), 0.25 * 0.25 / (SAFETY * 100)])
    spent = sum(
        budget.alpha(segment, look) for segment in ("all", "a", "b") for look in ("drop", "trend")
    )
    assert spent == pytest.approx(1 / (SAFETY * 100))


def looking(**changes):
    return DropSearch(
        **{"sd": 0.3, "wander": 0.03, "learned": 30.0, "alpha": 1 / 270, "power": 0.9} | changes
    )


def test_with_a_known_history_the_shift_is_the_sum_of_two_normal_quantiles():
    """2.3263 + 1.2816 at 1 % and 90 %: the textbook's sample size."""
    found = looking(learned=math.inf, alpha=0.01)

    assert found.shift == pytest.approx(3.6079, abs=2e-3)
    assert found.least_drop(100) == pytest.approx(
        3.6079 * math.sqrt(0.03**2 + 0.3**2 / 100), rel=1e-3
    )
    assert found.least_drop(100, 4) == pytest.approx(
        found.least_drop(100) / 2
    )  # the mean of four runs


def test_the_shift_is_the_non_centrality_of_scipys_t():
    found = looking(learned=14, alpha=0.01, power=0.8)

    assert 1 - scipy.stats.nct.cdf(scipy.stats.t.isf(0.01, 13), 13, found.shift) == pytest.approx(
        0.8, abs=1e-6
    )


def test_no_number_of_users_or_runs_helps_where_runs_wander_too_far_or_too_few_tell_what_is_normal():
    found = looking()
    edge = found.least_drop(math.inf)
    assert found.users_for(edge * 0.99) is None
    assert found.users_for(edge * 1.01) is not None
    assert found.runs_for(edge * 0.99, math.inf) == 2
    short = looking(learned=6)
    assert short.runs_for(short.least_drop(500, math.inf) * 0.99, 500) is None


@given(
    drop=st.floats(0.005, 1.0),
    learned=st.integers(5, 500),
    wander=st.floats(0, 0.1),
    runs=st.integers(1, 20),
    power=st.floats(0.5, 0.99),
)
def test_the_users_found_are_the_fewest_that_see_the_drop(drop, learned, wander, runs, power):
    found = looking(learned=learned, wander=wander, power=power)
    users = found.users_for(drop, runs)

    if users is None:
        assert found.least_drop(math.inf, runs) >= drop * (1 - 1e-9)
    else:
        assert found.least_drop(users, runs) <= drop * (1 + 1e-9)
        assert users == 1 or found.least_drop(users - 1, runs) > drop * (1 - 1e-9)
        assert found.chance(drop, users, runs) >= power - 1e-6


def test_values_out_of_range_are_refused():
    bad = {"sd": (math.nan, -1.0), "alpha": (0.0, 0.6), "power": (1.0,), "learned": (1.0,)}
    for name, values in bad.items():
        for value in values:
            with pytest.raises(InputError):
                looking(**{name: value})
    with pytest.raises(InputError):
        looking(sd=0.0, wander=0.0)
