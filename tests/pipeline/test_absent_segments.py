"""Nothing is never judged silently: a segment that is absent is no_data, is named, and its firing alert says so."""

from dataclasses import replace
from datetime import timedelta

from factories import changed, comparison, pull, rule
from monitor.model.alerts import AlertState, State
from monitor.model.comparison import Comparison
from monitor.model.memory import Memory
from monitor.model.rules import Condition, ConditionRule
from monitor.model.runs import RunResult
from pipeline.canned import ran, users

NAMES = [f"u{number}" for number in range(40)]
LISTS = {name: [1, 2, 3] for name in NAMES}
OTHER = {name: [7, 8, 9] for name in NAMES}
NO_DATA = ConditionRule(alert="NoData", condition=Condition.NO_DATA, segments="named")


def watched(**changes: object) -> Comparison:
    low = rule(alert="Low", for_runs=1, min_users=1, **changes)
    return comparison(k=3, rules=(low, NO_DATA))


def run(
    what: Comparison,
    countries: list[str],
    candidate: dict[str, list[int]],
    states: tuple[AlertState, ...] = (),
) -> RunResult:
    return ran(
        what,
        pull(LISTS),
        pull(candidate),
        users(*NAMES, country=countries),
        memory=Memory(states=states),
    )


def later(states: tuple[AlertState, ...]) -> tuple[AlertState, ...]:
    """The states as of an earlier run."""
    return tuple(replace(each, judged_slot=each.judged_slot - timedelta(days=1)) for each in states)


def moves(result: RunResult) -> dict[tuple[str, str], tuple[State, str]]:
    return {(each.alert, each.segment): (each.to_state, each.reason) for each in result.transitions}


def test_a_rule_on_a_segment_that_is_absent_is_named_by_the_run_and_fires_no_data():
    result = run(watched(segments=("country=no",)), ["NO"] * 40, LISTS)

    assert (
        result.reason
        == "nothing matches rule Low: there is no segment country=no. Did you mean country=NO?"
    )
    said = (
        "no user of the panel belongs to country=no (did you mean country=NO?); there is country=NO"
    )
    assert moves(result) == {("NoData", "country=no"): (State.FIRING, said)}


def test_a_segment_that_is_there_needs_no_word():
    result = run(watched(segments=("country=NO",)), ["NO"] * 40, LISTS)

    assert (result.reason, moves(result)) == (None, {})


def test_an_alert_that_fires_in_a_segment_that_vanishes_says_so_until_the_segment_is_back():
    what = watched(segments="each")
    fired = run(what, ["NO"] * 20 + ["SE"] * 20, OTHER)
    assert moves(fired)["Low", "country=SE"][0] is State.FIRING

    gone = run(what, ["NO"] * 40, OTHER, later(fired.states))
    assert list(moves(gone)) == [("NoData", "country=SE")]
    assert "no user of the panel belongs to country=SE" in moves(gone)["NoData", "country=SE"][1]
    (stuck,) = [each for each in gone.states if (each.alert, each.segment) == ("Low", "country=SE")]
    assert (stuck.state, stuck.outcome) == (State.FIRING, "no_data")

    back = run(what, ["NO"] * 20 + ["SE"] * 20, OTHER, later(gone.states))
    assert moves(back)["NoData", "country=SE"][0] is State.QUIET


def test_no_data_ends_where_nothing_waits_for_the_segment_any_more():
    first = run(watched(segments=("country=no",)), ["NO"] * 40, LISTS)
    second = run(watched(segments=("country=NO",)), ["NO"] * 40, LISTS, later(first.states))

    assert moves(second)["NoData", "country=no"][0] is State.QUIET


def test_all_asks_for_one_alert_of_all_users():
    what = watched(segments=("country=no",))
    only_all = changed(what, rules=(what.judging.rules[0], replace(NO_DATA, segments="all")))

    assert moves(run(only_all, ["NO"] * 40, LISTS)) == {}
