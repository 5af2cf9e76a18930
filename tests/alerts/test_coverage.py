"""Rules on coverage: what similarity cannot see."""

from dataclasses import replace
from typing import Any

import pytest

from factories import comparison, coverage_rule, evaluate, rule, summary
from monitor.alerts.rule_evaluation import Figures, thin_segments
from monitor.alerts.verdicts import judge_reading, read_coverage
from monitor.errors import ConfigError
from monitor.model.alerts import Outcome, State, Verdict
from monitor.model.rankings import Arm, Coverage, CoverageReason, CoverageRow
from monitor.model.rules import CoverageRule
from monitor.model.runs import RunStatus
from monitor.model.statistics import TRAITS, CoverageShare, Lack

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


def judged(statistic: str, above: float = 0.02, row: CoverageRow | None = ROW, **more: Any) -> Verdict:
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
        ("failed(candidate)", "the candidate failed to answer for 7 of 704 users (0.994 %), not above 2 %"),
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
    found = judged(statistic)

    assert found.reason == said
    assert (found.outcome is Outcome.BREACH) == (" allowed" in said)
    assert found.users == 704


@pytest.mark.parametrize("status", [RunStatus.INSUFFICIENT, RunStatus.FAILED])
def test_a_run_that_could_not_compare_enough_is_judged_all_the_same(status: RunStatus) -> None:
    assert judged("missing(candidate)", status=status, reason="too few").outcome is Outcome.BREACH


def test_a_run_that_asked_nobody_is_an_error_with_its_reason() -> None:
    found = judged("missing(candidate)", row=None, status=RunStatus.FAILED, reason="users.csv does not exist")

    assert (found.outcome, found.reason) == (
        Outcome.ERROR,
        "the run ended before its coverage was known: users.csv does not exist",
    )


def test_a_segment_of_which_nobody_was_asked_has_no_data() -> None:
    assert judged("missing(candidate)", row=None).outcome is Outcome.NO_DATA


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
