"""Shares of users by their lists: when unchanged lists say something, and what is said."""

import pytest

from factories import comparison, evaluate
from monitor.alerts import find_shares
from monitor.model import Arm, ArmScore, Direction, FixedLimit, ListShare, ListsRule, ListTrait, Outcome, RunStatus

STALE = ListShare(ListTrait.UNCHANGED)


def unchanged(segment: str, users: int, of: int) -> ArmScore:
    return ArmScore(segment=segment, arm=Arm.CANDIDATE, metric="unchanged_list", value=users / of, n=of)


def judged(*scores: ArmScore) -> set[str]:
    return {segment for segment, _ in find_shares(scores)}


def test_where_the_arm_was_not_trained_unchanged_lists_are_no_news() -> None:
    assert judged(unchanged("all", 1000, 1000), unchanged("s=a", 400, 400)) == set()
    assert judged(unchanged("all", 900, 1000), unchanged("s=a", 350, 400), unchanged("s=b", 550, 600)) == set()


def test_a_segment_left_behind_is_judged_by_the_others_however_large_it_is() -> None:
    assert judged(unchanged("all", 902, 1000), unchanged("s=a", 900, 900), unchanged("s=b", 2, 100)) == {"s=a"}
    assert judged(unchanged("all", 102, 1000), unchanged("s=a", 2, 900), unchanged("s=b", 100, 100)) == {"all", "s=b"}


def test_half_of_the_users_left_behind_are_seen_in_all_and_in_a_segment_of_everybody() -> None:
    assert judged(unchanged("all", 500, 1000), unchanged("s=a", 500, 1000)) == {"all", "s=a"}


def verdict(trait: ListTrait, *scores: ArmScore, status: RunStatus = RunStatus.OK) -> tuple[Outcome, str]:
    limit = FixedLimit(direction=Direction.ABOVE, value=0.05, resolve_at=0.05)
    rule = ListsRule(alert="Seen", share=ListShare(trait), limit=limit, segments="each", min_users=30)
    (state, *_), _ = evaluate(comparison(rules=(rule,)), arm_scores=scores, status=status)
    return state.outcome, state.reason


@pytest.mark.parametrize(
    ("trait", "reason"),
    [
        (ListTrait.SHARED, "the candidate gives one and the same list to 400 of 2,000 users"),
        (
            ListTrait.UNCHANGED,
            "the candidate left the lists of 400 of 2,000 users as they were in its last run",
        ),
        (
            ListTrait.REVERSED,
            "mostly the other way round are the first three items of 400 of 2,000 users who have the same three",
        ),
        (ListTrait.FIRST_DIFFERS, "the first item differs for 400 of 2,000 users"),
    ],
)
def test_a_share_is_told_in_users(trait: ListTrait, reason: str) -> None:
    score = ArmScore(segment="all", arm=Arm.CANDIDATE, metric=trait.value, value=0.2, n=2000)
    outcome, told = verdict(trait, score)
    assert (outcome, told.removesuffix(" (0.2), above 0.05")) == (Outcome.BREACH, reason)


def test_what_cannot_be_told_says_why() -> None:
    still = "the candidate changed too few lists of other users in this run to tell whose are left behind"
    assert verdict(ListTrait.UNCHANGED, unchanged("all", 2000, 2000)) == (Outcome.NO_DATA, still)
    few = "only 20 users can be looked at, fewer than the 30 needed"
    assert verdict(ListTrait.UNCHANGED, unchanged("all", 2, 20)) == (Outcome.TOO_FEW, few)
    assert verdict(ListTrait.SHARED)[1] == "nothing can be said of shared_list(candidate)"
    assert verdict(ListTrait.SHARED, status=RunStatus.FAILED)[0] is Outcome.ERROR
