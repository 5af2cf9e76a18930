"""Shares of users by their lists: when unchanged lists say something, and what is said."""

import pytest

from factories import comparison, coverage_rule, evaluate
from monitor.alerts.rule_evaluation import Figures
from monitor.model.alerts import Outcome
from monitor.model.rankings import Arm
from monitor.model.rules import CoverageRule, Direction, FixedLimit
from monitor.model.runs import ArmScore, RunStatus
from monitor.model.statistics import CoverageShare, Lack


def unchanged(segment: str, users: int, of: int) -> ArmScore:
    return ArmScore(segment=segment, arm=Arm.CANDIDATE, metric="unchanged_list", value=users / of, n=of)


def judged(*scores: ArmScore) -> set[str]:
    return Figures.of((), (), scores).segments(coverage_rule("unchanged_list"))


def test_where_the_arm_was_not_trained_unchanged_lists_are_no_news() -> None:
    assert judged(unchanged("all", 1000, 1000), unchanged("s=a", 400, 400)) == set()
    assert judged(unchanged("all", 900, 1000), unchanged("s=a", 350, 400), unchanged("s=b", 550, 600)) == set()


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
