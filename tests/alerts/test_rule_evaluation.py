"""Rules on coverage, which similarity cannot see, and on similarity: what they compare, and which segments they judge."""

from dataclasses import replace
from typing import get_args

import pytest

from factories import (
    DAY,
    SLOT,
    arm_score,
    comparison,
    coverage_row,
    coverage_rule,
    evaluate,
    rule,
    summary,
)
from monitor.alerts.rule_evaluation import JUDGES, Figures, thin_segments
from monitor.model.alerts import Outcome, State
from monitor.model.errors import ConfigError
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.rules import BaseRule, Condition, ConditionRule, Rule, RuleKind, StandstillRule
from monitor.model.runs import RunStatus
from monitor.model.statistics import MEASURED_TRAITS, CoverageShare, ListTrait
from tables import cells

EACH = comparison(rules=(rule(segments="each", for_runs=1),))


def run(watched, day, means, states=()):
    summaries = [summary(segment=name, mean=mean) for name, mean in means.items()]
    return evaluate(watched, slot=SLOT + day * DAY, summaries=summaries, states=states)


UK = "country=UK"
DE = "country=DE"


def test_a_rule_on_all_judges_the_whole_panel_and_named_segments_are_judged_once_and_in_order():
    states, _ = run(comparison(), 0, {"all": 0.9, UK: 0.1})
    assert [state.segment for state in states] == ["all"]
    states, _ = run(comparison(rules=(rule(segments=(UK, "all", UK)),)), 0, {"all": 0.9})
    assert [(state.segment, state.outcome) for state in states] == [
        (UK, Outcome.NO_DATA),
        ("all", Outcome.OK),
    ]


def test_a_rule_on_each_segment_judges_all_users_first_and_then_the_measured_segments_by_name():
    found = [
        summary(segment=UK, mean=0.1),
        summary(mean=0.2),
        summary(segment=DE),
        summary(segment="x=y", metric="overlap"),
    ]
    states, transitions = evaluate(EACH, summaries=found)
    fires = [(state.segment, state.state is State.FIRING) for state in states]
    assert fires == [("all", True), (DE, False), (UK, True)]
    assert [transition.segment for transition in transitions] == ["all", UK]


def test_a_segment_that_vanished_has_no_data_as_long_as_it_fires_and_else_once():
    states, _ = run(EACH, 0, {"all": 0.9, UK: 0.1, DE: 0.9})
    vanished = []
    for day in (1, 2):
        states, transitions = run(EACH, day, {"all": 0.9}, states)
        assert not transitions
        vanished.append(
            [(state.segment, state.state) for state in states if state.outcome is Outcome.NO_DATA]
        )
    assert vanished == [[(DE, State.QUIET), (UK, State.FIRING)], [(UK, State.FIRING)]]
    assert len(states) == 2


def test_the_reason_for_a_segment_without_users_names_the_segments_of_its_dimension():
    asked = (("all", 100), (DE, 10), (UK, 50), ("country=US", 30), ("country=FR", 10))
    rows = tuple(coverage_row(count, segment=name) for name, count in asked)
    absent = (rule(segments=("country=nosuch",)), coverage_rule("missing", segments=("plan=free",)))
    states, _ = evaluate(
        comparison(rules=absent), summaries=[summary()], coverage=Coverage(rows=rows)
    )
    assert [(state.outcome, state.reason) for state in states] == [
        (Outcome.NO_DATA, f"no user of the panel belongs to {said}")
        for said in (
            "country=nosuch. Existing names: country=UK, country=US, country=DE, country=FR",
            "plan=free",
        )
    ]


def test_every_kind_of_rule_has_a_judge_and_conditions_are_evaluated_last():
    others = rule(), coverage_rule("missing"), StandstillRule(alert="Frozen", arm=Arm.CANDIDATE)
    last = ConditionRule(alert="NoData", condition=Condition.NO_DATA)
    kinds = set(RuleKind) - {RuleKind.DATABASE, RuleKind.TEST}
    for classes in (get_args(Rule), BaseRule.__subclasses__()):
        assert {each.kind for each in classes} == kinds == set(JUDGES)
    for rules in ((last, *others), (*others[::-1], last)):
        states, _ = evaluate(comparison(rules=rules))
        assert [state.alert for state in states] == [
            each.alert for each in rules if each is not last
        ] + ["NoData"]


def unchanged(segment, users, of):
    return arm_score(segment=segment, metric="unchanged_list", value=users / of, n=of)


UNCHANGED = """
# all      a          b        judged
# Where the arm was not trained they are no news.
1000/1000  400/400    -        -
900/1000   360/400    540/600  -
899/1000   359/400    540/600  all b
# A segment is judged by the others, however large it is.
902/1000   900/900    2/100    a
102/1000   2/900      100/100  all b
500/1000   500/1000   -        all a
"""


def test_unchanged_lists_are_judged_where_others_changed():
    for row in cells(UNCHANGED):
        *counts, judged = row
        found = [
            (name, *map(int, count.split("/")))
            for name, count in zip(("all", "a", "b"), counts, strict=True)
            if count != "-"
        ]
        scores = [unchanged(*each) for each in found]
        assert Figures.of((), (), scores).segments(coverage_rule("unchanged_list")) == set(
            judged.split()
        ) - {"-"}


def verdict(trait, *scores, status=RunStatus.OK):
    watched = coverage_rule(f"{trait}(candidate)", threshold=0.05, segments="each", min_users=30)
    (state, *_), _ = evaluate(comparison(rules=(watched,)), arm_scores=scores, status=status)
    return state.outcome, state.reason


def test_a_trait_that_cannot_be_judged_has_a_reason():
    untold = "rules on `frozen` judge this arm, since it changed too few lists"
    assert verdict(ListTrait.UNCHANGED, unchanged("all", 2000, 2000)) == (Outcome.NO_DATA, untold)
    few = "only 20 users could be checked, fewer than the 30 needed"
    assert verdict(ListTrait.UNCHANGED, unchanged("all", 2, 20)) == (Outcome.TOO_FEW, few)
    assert verdict(ListTrait.SHARED) == (Outcome.NO_DATA, "there are no comparable lists")
    assert verdict(ListTrait.SHARED, status=RunStatus.FAILED)[0] is Outcome.ERROR


COUNTS = {
    (Arm.CANDIDATE, CoverageReason.MISSING): 36,
    (Arm.CANDIDATE, CoverageReason.TIMEOUT): 5,
    (Arm.CANDIDATE, CoverageReason.MALFORMED): 2,
    (Arm.CANDIDATE, CoverageReason.SHORT): 300,
    (Arm.BASELINE, CoverageReason.EMPTY): 7,
}
ROW = coverage_row(704, 654, reasons=COUNTS)


def test_a_share_without_an_arm_is_of_the_candidate_and_prints_its_arm():
    for name in ("missing", " missing( candidate ) ", "missing(candidate)"):
        assert CoverageShare.parse(name) == CoverageShare(ListTrait.MISSING, Arm.CANDIDATE)
    for name in ("missing(candidate)", "missing(baseline)", "unpaired"):
        assert str(CoverageShare.parse(name)) == name


def test_an_unknown_share_is_rejected_and_the_error_lists_all_shares():
    said = (
        r"use unpaired, or one of missing, empty, short, duplicated, failed, .*, followed by an arm"
    )
    for name in ("", "lost", "missing(candidates)", "unpaired(candidate)", "missing(candidate"):
        with pytest.raises(ConfigError, match=said):
            CoverageShare.parse(name)


def test_every_reason_but_too_slow_is_counted_by_exactly_one_share():
    shares = [
        CoverageShare(lack, Arm.BASELINE)
        for lack in set(ListTrait) - MEASURED_TRAITS - {ListTrait.UNPAIRED}
    ]
    for reason in CoverageReason:
        row = coverage_row(10, 5, reasons={(Arm.BASELINE, reason): 3})
        assert sum(share.count(row) for share in shares) == (
            0 if reason is CoverageReason.TOO_SLOW else 3
        )


def judged_share(share, row=ROW, *, min_users=1, **run):
    watched = coverage_rule(
        share,
        threshold=0.02,
        segments=("all" if row is None else row.segment,),
        min_users=min_users,
    )
    (state,), _ = evaluate(
        comparison(rules=(watched,)), coverage=row and Coverage(rows=(row,)), **run
    )
    return state


SHARES = """
missing(candidate)     the candidate gave no list for 36 of 704 users (5.11 %), more than the 2 % allowed
failed(candidate)      the candidate gave no usable answer for 7 of 704 users (0.994 %), not above 2 %
short(candidate)       the candidate gave a list shorter than k for 300 of 704 users (42.6 %), more than the 2 % allowed
empty(baseline)        the baseline gave an empty list for 7 of 704 users (0.994 %), not above 2 %
duplicated(candidate)  the candidate gave a list with duplicates for 0 of 704 users (0 %), not above 2 %
unpaired               50 of 704 users could not be compared (7.1 %), more than the 2 % allowed
"""


def test_a_verdict_names_the_arm_what_its_lists_lack_and_the_number_of_users():
    for statistic, said in cells(SHARES):
        found = judged_share(statistic)

        assert found.reason == said
        assert (found.outcome is Outcome.BREACH) == (" allowed" in said)
        assert found.users == 704


def test_without_coverage_a_failed_run_is_an_error_and_another_run_has_no_data():
    assert judged_share("missing(candidate)", None).outcome is Outcome.NO_DATA
    found = judged_share(
        "missing(candidate)", None, status=RunStatus.FAILED, run_reason="users.csv does not exist"
    )
    said = "the run ended before its coverage was known: users.csv does not exist"
    assert found.outcome == Outcome.ERROR
    assert found.reason == said


def test_few_users_are_not_judged():
    row = coverage_row(29, 0, "x=y")
    found = judged_share("unpaired", row, min_users=30)
    assert found.outcome == Outcome.TOO_FEW
    assert found.reason == "only 29 users of x=y were asked, fewer than the 30 needed"
    assert judged_share("unpaired", replace(row, asked=30), min_users=30).outcome is Outcome.BREACH


def test_a_coverage_rule_on_each_segment_judges_segments_without_a_paired_user():
    watched = comparison(
        rules=(coverage_rule("missing", threshold=0.5, segments="each"), rule(alert="Other"))
    )
    lost = coverage_row(40, 0, DE, {(Arm.CANDIDATE, CoverageReason.MISSING): 40})
    states, (transition,) = evaluate(
        watched, summaries=[summary()], coverage=Coverage(rows=(ROW, lost))
    )

    assert [(state.alert, state.segment, state.state) for state in states] == [
        ("MissingLists", "all", State.QUIET),
        ("MissingLists", DE, State.FIRING),
        ("Other", "all", State.QUIET),
    ]
    assert transition.statistic == "missing(candidate)"


def test_a_segment_is_thin_below_the_share_of_its_users_that_must_be_compared():
    counts = {"all": 1, DE: 24, "country=FR": 25, "country=IT": 0}
    rows = tuple(coverage_row(50, paired, name) for name, paired in counts.items())
    assert thin_segments(Coverage(rows=rows), 0.5) == {
        DE: "24 of 50 users, under min_paired_share 50 %",
        "country=IT": "0 of 50 users, under min_paired_share 50 %",
    }
    assert not thin_segments(None, 0.5)
