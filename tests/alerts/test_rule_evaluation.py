from collections.abc import Sequence
from datetime import timedelta

import pytest

from factories import SLOT, comparison, coverage_rule, evaluate, rule, summary
from monitor.model.alerts import AlertState, Outcome, State, Transition
from monitor.model.comparison import Comparison
from monitor.model.rankings import Coverage, CoverageRow
from monitor.model.rules import Rule
from monitor.model.runs import RunStatus, Summary

DAY = timedelta(days=1)
EACH = comparison(rules=(rule(segments="each", for_runs=1),))


def run(
    watched: Comparison,
    day: int,
    summaries: Sequence[Summary],
    states: Sequence[AlertState] = (),
    status: RunStatus = RunStatus.OK,
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    slot = SLOT + day * DAY
    reason = None if status is RunStatus.OK else "candidate is down"
    return evaluate(watched, slot=slot, status=status, run_reason=reason, summaries=summaries, states=states)


def measured(**means: float) -> list[Summary]:
    return [summary(segment=name.replace("_", "="), mean=mean) for name, mean in means.items()]


def test_all_looks_at_the_whole_panel_only() -> None:
    states, _ = run(comparison(), 0, measured(all=0.9, country_UK=0.1))
    assert [state.segment for state in states] == ["all"]


def test_named_segments_are_looked_at_in_their_order_and_once() -> None:
    named = comparison(rules=(rule(segments=("country=UK", "all", "country=UK")),))
    states, _ = run(named, 0, measured(all=0.9))
    assert [(state.segment, state.outcome) for state in states] == [("country=UK", Outcome.NO_DATA), ("all", Outcome.OK)]


def test_each_is_all_first_and_then_every_measured_segment_by_name() -> None:
    states, transitions = run(EACH, 0, measured(country_UK=0.1, all=0.2, country_DE=0.9))
    assert [(state.segment, state.state) for state in states] == [
        ("all", State.FIRING),
        ("country=DE", State.QUIET),
        ("country=UK", State.FIRING),
    ]
    assert [transition.segment for transition in transitions] == ["all", "country=UK"]


def test_each_counts_a_segment_only_where_the_rule_s_metric_was_measured() -> None:
    other = summary(segment="country=UK", metric="overlap")
    states, _ = run(EACH, 0, [summary(), other])
    assert [state.segment for state in states] == ["all"]


def test_a_firing_segment_that_vanished_has_no_data_and_keeps_firing() -> None:
    states, _ = run(EACH, 0, measured(all=0.9, country_UK=0.1))
    for day in (1, 2, 3):
        states, transitions = run(EACH, day, measured(all=0.9), states)
        uk = states[1]
        assert (uk.segment, uk.state, uk.outcome) == ("country=UK", State.FIRING, Outcome.NO_DATA)
        assert transitions == ()


def test_a_quiet_segment_that_vanished_is_told_to_have_no_data_once() -> None:
    first, _ = run(EACH, 0, measured(all=0.9, country_UK=0.9))
    second, _ = run(EACH, 1, measured(all=0.9), first)
    assert [(state.segment, state.outcome) for state in second] == [("all", Outcome.OK), ("country=UK", Outcome.NO_DATA)]
    third, _ = run(EACH, 2, measured(all=0.9), second)
    assert [state.segment for state in third] == ["all"]


def test_a_failed_run_is_an_error_for_every_segment_and_moves_none() -> None:
    before, _ = run(EACH, 0, measured(all=0.9, country_UK=0.1, country_DE=0.9))
    states, transitions = run(EACH, 1, (), before, RunStatus.FAILED)
    assert transitions == ()
    assert {state.segment: (state.state, state.outcome) for state in states} == {
        "all": (State.QUIET, Outcome.ERROR),
        "country=DE": (State.QUIET, Outcome.ERROR),
        "country=UK": (State.FIRING, Outcome.ERROR),
    }
    assert states[0].reason == "candidate is down"


def test_the_very_first_run_failing_leaves_a_state_that_says_so() -> None:
    states, transitions = run(comparison(), 0, (), (), RunStatus.FAILED)
    assert (states[0].state, states[0].outcome, transitions) == (State.QUIET, Outcome.ERROR, ())


def test_judging_a_slot_again_gives_the_stored_states_and_no_transition() -> None:
    states, transitions = run(EACH, 0, measured(all=0.1, country_UK=0.1))
    assert len(transitions) == 2
    assert run(EACH, 0, measured(all=0.9, country_UK=0.9), states) == (states, ())


def test_rules_are_judged_in_their_order_and_by_their_own_states() -> None:
    rules = (rule(alert="Zeta", for_runs=1), rule(alert="Alpha", for_runs=1, statistic="p05", threshold=-0.1, resolve_at=-0.1))
    _, transitions = run(comparison(rules=rules), 0, measured(all=0.1))
    assert [(transition.alert, transition.value) for transition in transitions] == [("Zeta", 0.1), ("Alpha", -0.2)]


@pytest.mark.parametrize(
    ("watched", "said"),
    [
        (rule(segments=("country=nosuch",)), "country=nosuch; there is country=UK, country=US, country=DE and 1 more"),
        (coverage_rule("missing", segments=("plan=free",)), "plan=free; there is plan=pro"),
        (rule(segments=("age=old",)), "age=old; there is no segment by age"),
    ],
)
def test_a_segment_that_nobody_belongs_to_is_told_with_the_three_largest_of_its_dimension(watched: Rule, said: str) -> None:
    asked = {"all": 100, "country=DE": 10, "country=UK": 50, "country=US": 30, "country=FR": 10, "plan=pro": 100}
    rows = tuple(CoverageRow(segment=name, asked=count, paired=count, reasons={}) for name, count in asked.items())
    (state,), _ = evaluate(comparison(rules=(watched,)), summaries=[summary()], coverage=Coverage(rows=rows))
    assert (state.outcome, state.reason) == (Outcome.NO_DATA, f"no user of the panel belongs to {said}")
