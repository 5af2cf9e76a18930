"""What `monitor.alerts.rule_evaluation` tells of segments that nobody belongs to."""

from factories import comparison, coverage_rule, evaluate, rule, summary
from monitor.model import AlertState, Coverage, CoverageRow, Outcome, Rule, RunStatus

ASKED = {"all": 100, "country=DE": 10, "country=UK": 50, "country=US": 30, "country=FR": 10, "plan=pro": 100}


def judged(watched: Rule, asked: dict[str, int] = ASKED, status: RunStatus = RunStatus.OK) -> AlertState:
    rows = tuple(CoverageRow(segment=name, asked=count, paired=count, reasons={}) for name, count in asked.items())
    states, _ = evaluate(comparison(rules=(watched,)), status=status, summaries=[summary()], coverage=Coverage(rows=rows))
    return states[0]


def test_a_segment_that_nobody_belongs_to_is_told_with_the_three_largest_of_its_dimension() -> None:
    state = judged(rule(segments=("country=nosuch",)))
    assert state.outcome is Outcome.NO_DATA
    assert state.reason == (
        "no user of the panel belongs to country=nosuch; there is country=UK, country=US, country=DE and 1 more"
    )


def test_a_rule_on_coverage_says_the_same() -> None:
    watched = coverage_rule("missing", segments=("plan=free",))
    assert judged(watched).reason == "no user of the panel belongs to plan=free; there is plan=pro"


def test_a_dimension_that_the_run_did_not_have_is_told() -> None:
    state = judged(rule(segments=("age=old",)))
    assert state.reason == "no user of the panel belongs to age=old; the panel has no segments by age"


def test_a_value_may_be_among_the_rare_ones_that_share_a_segment() -> None:
    state = judged(rule(segments=("country=XX",)), {"all": 100, "country=UK": 90, "country=other": 10})
    assert state.reason == (
        "no user of the panel belongs to country=XX, unless as one of the rare ones in country=other; "
        "there is country=UK, country=other"
    )


def test_a_segment_with_users_but_no_value_is_no_stranger() -> None:
    assert judged(rule(segments=("country=UK",))).reason == "no user of country=UK has a value of extended_tau"


def test_a_failed_run_says_so_first() -> None:
    assert judged(rule(segments=("country=nosuch",)), status=RunStatus.FAILED).outcome is Outcome.ERROR
