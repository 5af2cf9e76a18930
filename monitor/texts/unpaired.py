"""Writes how the lists of two arms differ, if each user is served by one arm only."""

from collections.abc import Mapping

from monitor.model.explanation import Finding
from monitor.model.rankings import ALL, Arm
from monitor.model.unpaired import BetweenExcess, UnpairedFindings
from monitor.texts.explanations import join_sentences, shorten_name, write_cause


def write_unpaired(
    finding: Finding | None,
    gaps: Mapping[str, float],
    segment: str,
    excess: BetweenExcess | None,
) -> str:
    """Say what happened to the users of an arm, and which arm's users moved farther.

    ``gaps`` are the self gaps by segment: how much farther the candidate's users moved from their
    lists of before. ``segment`` is named if it is not ``all``.
    """
    sentences = []
    if finding is not None:
        sentences.append(f"{write_cause(finding)}.")
    sentences.append(_write_gap(gaps[ALL]))
    if segment in gaps and segment != ALL:
        amount = abs(gaps[segment])
        sentences.append(f"In {shorten_name(segment)} the difference is {amount:.4f}.")
    if excess is not None and finding is None:
        sentences.append(
            "Two users of different arms are less alike than two users of one arm, "
            f"by {excess.excess:.4f} of RBO."
        )
    return join_sentences(sentences)


def write_arms(unpaired: UnpairedFindings) -> list[str]:
    """Say how many users each arm has, and how many users both arms served."""
    sentences = []
    for arm, users in unpaired.users.items():
        sentences.append(
            f"{arm}: {users.assigned:,} users since the test began, {users.served:,} with a list "
            f"of now, {users.compared:,} of them with a list of before"
        )
    if unpaired.switched:
        sentences.append(f"both arms served {unpaired.switched:,} users, who are left out")
    return sentences


def write_changed_split(planned: float, earlier: float) -> str:
    """Say that the planned split is not the one of earlier runs of the same test."""
    return (
        f"unpaired.split has changed: it plans {planned:g} of the users for the baseline, but "
        f"earlier runs of this test planned {earlier:g}: restore the split, or give a new "
        "unpaired.since"
    )


def _write_gap(gap: float) -> str:
    arm = Arm.CANDIDATE if gap >= 0 else Arm.BASELINE
    return (
        f"Users of the {arm} moved farther from their lists of before than users of the "
        f"{arm.other}, by {abs(gap):.4f}."
    )
