"""Rules on coverage, which similarity cannot see, and on similarity: what they compare, and which segments they judge."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from factories import DAY, SLOT, comparison, coverage_rule, evaluate, rule, summary
from monitor.alerts.rule_evaluation import JUDGES, Figures, thin_segments
from monitor.alerts.verdicts import judge_reading, read_coverage
from monitor.errors import ConfigError
from monitor.model.alerts import AlertState, Outcome, State, Transition, Verdict
from monitor.model.comparison import Comparison
from monitor.model.rankings import Arm, Coverage, CoverageReason, CoverageRow
from monitor.model.rules import (
    KIND_OF_LABEL,
    METRIC_LABELS,
    BaseRule,
    Condition,
    ConditionRule,
    CoverageRule,
    Direction,
    FixedLimit,
    Rule,
    RuleKind,
    StandstillRule,
)
from monitor.model.runs import ArmScore, RunStatus, Summary
from monitor.model.statistics import TRAITS, CoverageShare, Lack

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


def test_all_looks_at_the_whole_panel_only_and_named_segments_are_looked_at_in_their_order_and_once() -> None:
    states, _ = run(comparison(), 0, measured(all=0.9, country_UK=0.1))
    assert [state.segment for state in states] == ["all"]
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


ONE_OF_EACH: dict[RuleKind, Rule] = {
    RuleKind.SIMILARITY: rule(),
    RuleKind.COVERAGE: coverage_rule("missing"),
    RuleKind.STANDSTILL: StandstillRule(alert="Frozen", arm=Arm.CANDIDATE),
    RuleKind.CONDITION: ConditionRule(alert="NoData", condition=Condition.NO_DATA),
}


def test_every_kind_of_rule_has_a_judge_a_class_and_a_label_that_leads_back_to_it_and_is_evaluated_in_every_run() -> None:
    assert set(JUDGES) == set(RuleKind)
    assert {kind.kind for kind in BaseRule.__subclasses__()} == set(RuleKind)
    assert len({kind.__qualname__ for kind in BaseRule.__subclasses__()}) == len(RuleKind)
    assert set(METRIC_LABELS) == set(RuleKind) - {RuleKind.SIMILARITY}
    for kind, each in ONE_OF_EACH.items():
        assert (each.kind, KIND_OF_LABEL.get(each.subject.metric, RuleKind.SIMILARITY)) == (kind, kind)
    states, _ = evaluate(comparison(rules=tuple(ONE_OF_EACH.values())))
    assert {state.alert for state in states} == {each.alert for each in ONE_OF_EACH.values()}


def unchanged(segment: str, users: int, of: int) -> ArmScore:
    return ArmScore(segment=segment, arm=Arm.CANDIDATE, metric="unchanged_list", value=users / of, n=of)


def judged(*scores: ArmScore) -> set[str]:
    return Figures.of((), (), scores).segments(coverage_rule("unchanged_list"))


def test_where_the_arm_was_not_trained_unchanged_lists_are_no_news() -> None:
    assert judged(unchanged("all", 1000, 1000), unchanged("s=a", 400, 400)) == set()
    assert judged(unchanged("all", 900, 1000), unchanged("s=a", 360, 400), unchanged("s=b", 540, 600)) == set()
    assert judged(unchanged("all", 899, 1000), unchanged("s=a", 359, 400), unchanged("s=b", 540, 600)) == {"all", "s=b"}


def test_a_segment_left_behind_is_judged_by_the_others_however_large_it_is() -> None:
    assert judged(unchanged("all", 902, 1000), unchanged("s=a", 900, 900), unchanged("s=b", 2, 100)) == {"s=a"}
    assert judged(unchanged("all", 102, 1000), unchanged("s=a", 2, 900), unchanged("s=b", 100, 100)) == {"all", "s=b"}


def test_half_of_the_users_left_behind_are_seen_in_all_and_in_a_segment_of_everybody() -> None:
    assert judged(unchanged("all", 500, 1000), unchanged("s=a", 500, 1000)) == {"all", "s=a"}


def verdict(lack: Lack, *scores: ArmScore, status: RunStatus = RunStatus.OK) -> tuple[Outcome, str]:
    limit, share = FixedLimit(direction=Direction.ABOVE, value=0.05, resolve_at=0.05), CoverageShare(lack, Arm.CANDIDATE)
    rule = CoverageRule(alert="Seen", share=share, limit=limit, segments="each", min_users=30)
    (state, *_), _ = evaluate(comparison(rules=(rule,)), arm_scores=scores, status=status)
    return state.outcome, state.reason


@pytest.mark.parametrize(
    ("lack", "did"),
    [
        (Lack.SHARED, "gave one and the same list to"),
        (Lack.UNCHANGED, "has not changed since its last run the lists of"),
        (Lack.REVERSED, "turned round the same first three items for"),
        (Lack.FIRST_DIFFERS, "put another item first for"),
    ],
)
def test_a_share_is_told_in_users(lack: Lack, did: str) -> None:
    score = ArmScore(segment="all", arm=Arm.CANDIDATE, metric=lack.value, value=0.2, n=2000)
    assert verdict(lack, score) == (Outcome.BREACH, f"the candidate {did} 400 of 2,000 users (20 %), more than the 5 % allowed")


def test_what_cannot_be_told_says_why() -> None:
    untold = "too few lists of other users have changed since the last run to tell which ones should have"
    assert verdict(Lack.UNCHANGED, unchanged("all", 2000, 2000)) == (Outcome.NO_DATA, untold)
    few = "only 20 users could be looked at, fewer than the 30 needed"
    assert verdict(Lack.UNCHANGED, unchanged("all", 2, 20)) == (Outcome.TOO_FEW, few)
    assert verdict(Lack.SHARED) == (Outcome.NO_DATA, "there are no lists to compare")
    assert verdict(Lack.SHARED, status=RunStatus.FAILED)[0] is Outcome.ERROR


COUNTS = {
    (Arm.CANDIDATE, CoverageReason.MISSING): 36,
    (Arm.CANDIDATE, CoverageReason.TIMEOUT): 5,
    (Arm.CANDIDATE, CoverageReason.MALFORMED): 2,
    (Arm.CANDIDATE, CoverageReason.SHORT): 300,
    (Arm.BASELINE, CoverageReason.EMPTY): 7,
}
ROW = CoverageRow(segment="all", asked=704, paired=654, reasons=COUNTS)


@pytest.mark.parametrize(
    ("name", "canonical", "count"),
    [
        ("missing", "missing(candidate)", 36),
        (" missing( candidate ) ", "missing(candidate)", 36),
        ("missing(baseline)", "missing(baseline)", 0),
        ("empty(baseline)", "empty(baseline)", 7),
        ("short", "short(candidate)", 300),
        ("duplicated", "duplicated(candidate)", 0),
        ("failed", "failed(candidate)", 7),
        ("unpaired", "unpaired", 50),
    ],
)
def test_a_share_counts_its_users_and_prints_whose(name: str, canonical: str, count: int) -> None:
    share = CoverageShare.parse(name)

    assert (str(share), share.count(ROW)) == (canonical, count)
    assert CoverageShare.parse(canonical) == share


@pytest.mark.parametrize("name", ["", "lost", "missing(candidates)", "unpaired(candidate)", "missing(candidate", "MISSING"])
def test_what_is_no_share_is_refused_with_all_there_are(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"use unpaired, or one of missing, empty, short, duplicated, failed, .*, with an arm"
    ):
        CoverageShare.parse(name)


def test_every_reason_is_counted_by_exactly_one_share_of_an_arm_but_that_rankwatch_itself_was_too_slow() -> None:
    for reason in set(CoverageReason) - {CoverageReason.TOO_SLOW}:
        row = CoverageRow(segment="all", asked=10, paired=5, reasons={(Arm.BASELINE, reason): 3})
        counts = [CoverageShare(lack, Arm.BASELINE).count(row) for lack in set(Lack) - TRAITS - {Lack.UNPAIRED}]
        assert sorted(counts) == [0, 0, 0, 0, 3]
    slow = CoverageRow(segment="all", asked=10, paired=5, reasons={(Arm.BASELINE, CoverageReason.TOO_SLOW): 3})
    assert CoverageShare(Lack.FAILED, Arm.BASELINE).count(slow) == 0


def judged_share(statistic: str, above: float = 0.02, row: CoverageRow | None = ROW, **more: Any) -> Verdict:
    return judge_coverage(coverage_rule(statistic, threshold=above), "all", row, **more)


def judge_coverage(
    watched: CoverageRule, segment: str, row: CoverageRow | None, status: RunStatus = RunStatus.OK, reason: str | None = None
) -> Verdict:
    found = Figures.of((), () if row is None else (row,)).find_share(segment, watched.share)
    return judge_reading(watched, read_coverage(watched, segment, status, found, reason), None)


@pytest.mark.parametrize(
    ("statistic", "said"),
    [
        ("missing(candidate)", "the candidate gave no list for 36 of 704 users (5.11 %), more than the 2 % allowed"),
        ("failed(candidate)", "the candidate gave no usable answer for 7 of 704 users (0.994 %), not above 2 %"),
        (
            "short(candidate)",
            "the candidate gave a list shorter than k for 300 of 704 users (42.6 %), more than the 2 % allowed",
        ),
        ("empty(baseline)", "the baseline gave an empty list for 7 of 704 users (0.994 %), not above 2 %"),
        ("duplicated(candidate)", "the candidate gave a list with duplicates for 0 of 704 users (0 %), not above 2 %"),
        ("unpaired", "50 of 704 users could not be compared (7.1 %), more than the 2 % allowed"),
    ],
)
def test_a_verdict_tells_whose_lists_lack_what_for_how_many(statistic: str, said: str) -> None:
    found = judged_share(statistic)

    assert found.reason == said
    assert (found.outcome is Outcome.BREACH) == (" allowed" in said)
    assert found.users == 704


@pytest.mark.parametrize("status", [RunStatus.INSUFFICIENT, RunStatus.FAILED])
def test_a_run_that_could_not_compare_enough_is_judged_all_the_same(status: RunStatus) -> None:
    assert judged_share("missing(candidate)", status=status, reason="too few").outcome is Outcome.BREACH


def test_where_nobody_was_asked_a_run_that_failed_is_an_error_with_its_reason_and_another_has_no_data() -> None:
    assert judged_share("missing(candidate)", row=None).outcome is Outcome.NO_DATA
    found = judged_share("missing(candidate)", row=None, status=RunStatus.FAILED, reason="users.csv does not exist")

    assert (found.outcome, found.reason) == (
        Outcome.ERROR,
        "the run ended before its coverage was known: users.csv does not exist",
    )


def test_few_users_are_not_judged() -> None:
    watched = coverage_rule("unpaired", threshold=0.1, min_users=30)
    row = CoverageRow(segment="x=y", asked=29, paired=0, reasons={})

    found = judge_coverage(watched, "x=y", row)

    assert (found.outcome, found.reason) == (
        Outcome.TOO_FEW,
        "only 29 users of x=y were asked, fewer than the 30 needed",
    )
    assert judge_coverage(watched, "x=y", replace(row, asked=30)).outcome is Outcome.BREACH


def test_each_looks_at_the_segments_that_were_asked_even_when_none_of_them_was_compared() -> None:
    watched = comparison(
        rules=(
            coverage_rule("missing", threshold=0.5, segments="each"),
            rule(alert="Other"),
        )
    )
    lost = CoverageRow(segment="country=DE", asked=40, paired=0, reasons={(Arm.CANDIDATE, CoverageReason.MISSING): 40})
    coverage = Coverage(rows=(ROW, lost))
    states, transitions = evaluate(watched, summaries=[summary()], coverage=coverage)

    assert [(state.alert, state.segment, state.state) for state in states] == [
        ("ListsMissing", "all", State.QUIET),
        ("ListsMissing", "country=DE", State.FIRING),
        ("Other", "all", State.QUIET),
    ]
    assert transitions[0].statistic == "missing(candidate)"


def test_a_segment_is_thin_below_the_share_of_its_users_that_must_be_compared() -> None:
    counts = {"all": 1, "country=DE": 24, "country=FR": 25, "country=IT": 0}
    rows = tuple(CoverageRow(segment=name, asked=50, paired=paired, reasons={}) for name, paired in counts.items())

    found = thin_segments(Coverage(rows=rows), 0.5)

    assert found == {
        "country=DE": "24 of 50 users, under min_paired_share 50%",
        "country=IT": "0 of 50 users, under min_paired_share 50%",
    }
    assert thin_segments(None, 0.5) == {}
