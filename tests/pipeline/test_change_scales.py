"""What a change of an alert tells beside its value."""

from dataclasses import replace
from datetime import timedelta

import pytest

from factories import SLOT, comparison, rule, summary, transition
from monitor.model.alerts import Expectation, State
from monitor.model.memory import PastRun
from monitor.model.rules import Learning
from monitor.pipeline.judgement import RECENT, ChangeScales

DAY = timedelta(days=1)
SCORES = (-1.0, 1.0)
LOW = rule(scores=SCORES)


def scales(**changes: object) -> ChangeScales:
    base = ChangeScales(comparison=comparison(rules=(LOW,)), summaries=(summary(mean=0.254),), expectations=(), past=())
    return replace(base, **changes)  # type: ignore[arg-type]


def past(*means: float, alarmed: bool = False) -> tuple[PastRun, ...]:
    states = {("SimilarityLow", "all"): State.FIRING} if alarmed else {}
    return tuple(PastRun(slot=SLOT - n * DAY, states=states, summaries=(summary(mean=mean),)) for n, mean in enumerate(means))


def test_a_value_has_its_interval_over_users() -> None:
    (told,) = scales().complete([transition()])
    assert told.interval == pytest.approx((0.254 - 0.0196, 0.254 + 0.0196), abs=1e-4)
    assert told.normal is None


def test_a_share_of_coverage_has_one_of_the_users_asked() -> None:
    (told,) = scales().complete([transition(metric="coverage", statistic="missing(candidate)", value=0.2, users=100)])
    assert told.interval == pytest.approx((0.12710, 0.28433), abs=5e-5)


def test_what_has_no_value_has_neither() -> None:
    change = transition(metric="condition", statistic="no_data", value=None)
    assert scales(past=past(0.5)).complete([change]) == (change,)


def test_normal_is_what_the_rule_expected() -> None:
    expected = Expectation(alert="SimilarityLow", segment="all", runs=9, expected=0.51)
    learned = comparison(rules=(rule(scores=SCORES, learned=Learning.DROP),))
    (told,) = scales(comparison=learned, expectations=(expected,), past=past(0.9)).complete([transition()])
    assert told.normal == 0.51


def test_normal_of_a_threshold_is_what_another_rule_expected_of_the_same_series() -> None:
    rules = (LOW, rule(alert="Dropped", learned=Learning.DROP), rule(alert="Tail", statistic="p05"))
    expected = [
        Expectation(alert="Tail", segment="all", runs=9, expected=-0.2),
        Expectation(alert="Dropped", segment="country=UK", runs=9, expected=0.7),
        Expectation(alert="Dropped", segment="all", runs=9, expected=0.52),
    ]
    (told,) = scales(comparison=comparison(rules=rules), expectations=expected).complete([transition()])
    assert told.normal == 0.52


def test_normal_where_nothing_learns_is_the_mean_of_the_newest_runs_without_the_alert() -> None:
    before = (*past(*[0.9] * 5), *past(0.1, alarmed=True), *past(*[0.4, 0.6] * (RECENT // 2 - 1), 0.5))
    (told,) = scales(past=before).complete([transition()])
    assert told.normal == pytest.approx(0.5)
