"""Writes how the lists of two arms differ, if each user is served by one arm only."""

import math
from collections.abc import Mapping

from monitor.model.explanation import Finding
from monitor.model.rankings import ALL, Arm, CoverageRow
from monitor.model.run_reasons import RunReason
from monitor.model.runs import RunStatus
from monitor.model.unpaired import ENOUGH_EVIDENCE, BetweenExcess, OutcomeGap, UnpairedResults
from monitor.texts.explanations import join_sentences, shorten_name, write_also, write_cause
from monitor.texts.run_reasons import write_off_split, write_run_reason
from monitor.texts.wording import count_of

LIMIT_OF_SELF_GAPS = (
    "Two arms that move equally far in different directions have no self gap. If the models of both "
    "arms are alike, lists that come from the other arm's model look healthy. If you can ask the "
    "candidate for the baseline's users too, a paired comparison is better."
)
"""What an unpaired comparison cannot see. Pages, commands and guides say it."""
ONE_RUN = (
    "One run cannot say whether a gap is normal, because two healthy trainings have a gap too. "
    "Compare the log of several days, or configure the comparison (rankwatch init --unpaired): its "
    "rules learn what is normal."
)
"""How to read the gaps of a single run."""
OTHER_SPLIT = (
    "If another split was planned, give the baseline's planned share with --split, such as "
    "--split 0.9."
)
"""What to do if the users are not split as the option says or by default."""
GAPS_EXPLAINED = (
    "Baseline, candidate: the mean of the metric over the arm's users, between their current list "
    "and their own pre-test list, which is the last list from before the test. Self gap: how much "
    "farther the candidate's users moved. Far gap: how many more of them have a list that is far "
    "from their pre-test list."
)
"""What the columns of the gaps mean."""
ARM_GAPS_EXPLAINED = (
    "Adjusted gap: how much more the value rose in the candidate than in the baseline, compared "
    "with the same users' pre-test lists. No rule judges it."
)
"""What the column of the adjusted gaps means."""
_INSUFFICIENT_WARNING = (
    "Do not use these values: the run is insufficient, for the reason that is given above."
)
SPLIT_OFF_WARNING = (
    "Do not use these values: the users are not split as planned. First repair the cause. Only then "
    "assign the users again, and set a new `since`."
)
"""Pages and `rankwatch show` say this above values if the users are not split as planned."""
_OUTCOMES_EXPLAINED = (
    "An outcome is the sum for a user since the test began. The difference is adjusted by the sum "
    "before the test. You may look at the interval in every run: in 95 of 100 tests, it contains the "
    "true difference in all runs."
)
_EQUAL = "The users of both arms moved about equally far from their pre-test lists."
_LEAST_EXCESS = 0.00005
_MOST_EVIDENCE = math.log(1e9)  # more is not shown


def write_unpaired(
    finding: Finding | None,
    gaps: Mapping[str, float],
    segment: str,
    excess: BetweenExcess | None,
    *,
    also: Finding | None = None,
    is_clear: bool,
) -> str:
    """Say what happened to the users of an arm, and which arm's users moved farther.

    ``gaps`` are the self gaps by segment: how much farther the candidate's users moved from their
    pre-test lists. ``segment`` is named if it is not ``all``. ``also`` is another fault, of other
    users. With ``is_clear``, the gap of all users is larger than chance among users can explain.
    """
    sentences = []
    if finding is not None:
        sentences += [f"{write_cause(finding)}.", *write_also(also)]
    sentences.append(_write_gap(gaps[ALL]) if is_clear else _EQUAL)
    if segment in gaps and segment != ALL:
        amount = abs(gaps[segment])
        sentences.append(f"In {shorten_name(segment)} the difference is {amount:.4f}.")
    if excess is not None and finding is None and excess.excess >= _LEAST_EXCESS:
        sentences.append(
            "Two users of different arms are less alike than two users of one arm, "
            f"by {excess.excess:.4f} of RBO."
        )
    return join_sentences(sentences)


def write_arms(unpaired: UnpairedResults) -> list[str]:
    """Say how many users each arm has, and how many users switched arms."""
    sentences = []
    for arm, users in unpaired.users.items():
        sentences.append(
            f"{arm}: {users.assigned:,} users since the test began, {users.served:,} with a "
            f"current list, {users.compared:,} of them with a pre-test list"
        )
    if unpaired.switched:
        switched = count_of(unpaired.switched, "user")
        sentences.append(f"left out, because they switched arms: {switched}")
    if unpaired.served_by_any:
        sentences.append(_write_served_by_other(unpaired))
    return sentences


def _write_served_by_other(unpaired: UnpairedResults) -> str:
    others = count_of(unpaired.served_by_other, "user")
    return (
        f"newest list from the other arm than in assignments: {others} of "
        f"{unpaired.served_by_any:,}"
    )


def write_faulty_lists(coverage: CoverageRow) -> list[str]:
    """Say for each arm how many users have no current list, or a list with a fault."""
    sentences = []
    for arm in Arm:
        counts = []
        for (reason_arm, reason), users in coverage.users_by_reason.items():
            if reason_arm is arm:
                counts.append(f"{users:,} {reason}")
        if counts:
            asked = count_of(coverage.asked_of(arm), "user")
            sentences.append(f"Current lists of the {arm}, among {asked}: {', '.join(counts)}.")
    return sentences


def write_needs_pairs(comparison: str) -> str:
    """Say that thresholds are suggested only for pairs of lists, and what to use instead."""
    return (
        f"each user of {comparison} is served by one arm only, and suggest needs the lists of both "
        "arms for each user: use rules with learned:, such as default_rules: true"
    )


def write_unusable(reason: RunReason) -> str:
    """Say that the figures of a comparison cannot be used, and why."""
    return f"Do not use these figures: {write_run_reason(reason)}."


def write_warning(status: RunStatus | None, *, is_split_off: bool) -> str:
    """Say that the values of a run cannot be used. Empty if they can be used."""
    if is_split_off:
        return SPLIT_OFF_WARNING
    return _INSUFFICIENT_WARNING if status is RunStatus.INSUFFICIENT else ""


def write_changed_split(planned: float, earlier: float) -> str:
    """Say that the planned split is not the one of earlier runs of the same test."""
    return (
        f"unpaired.split has changed: it plans {planned:g} of the users for the baseline, but "
        f"earlier runs of this test planned {earlier:g}: restore the split, or give a new "
        "unpaired.since"
    )


def write_too_early(began_at: str) -> str:
    """Say that a slot is not after the beginning of the test."""
    return (
        f"the test began at {began_at}, so it has no users at this slot: run a later slot, or "
        "correct unpaired.before and unpaired.since"
    )


def _write_gap(gap: float) -> str:
    arm = Arm.CANDIDATE if gap >= 0 else Arm.BASELINE
    return (
        f"Users of the {arm} moved farther from their pre-test lists than users of the "
        f"{arm.other}, by {abs(gap):.4f}."
    )


def write_outcomes(results: UnpairedResults) -> tuple[str, ...]:
    """Say for each outcome which arm has more of it, and how to read this. Empty without any."""
    if not results.outcomes:
        return ()
    return (*map(_write_outcome, results.outcomes), _OUTCOMES_EXPLAINED)


def _write_outcome(gap: OutcomeGap) -> str:
    baseline = gap.means[Arm.BASELINE]
    if baseline is not None and baseline <= 0:
        return f"{gap.column}: no relative difference, because the baseline's mean is not above 0."
    if gap.low is None or gap.high is None:
        return f"{gap.column}: too few users have an outcome for an interval."
    low, high = (f"{abs(100 * end):.2f} %" for end in (gap.low, gap.high))
    if gap.low > 0:
        return f"{gap.column}: the candidate is {low} to {high} above the baseline."
    if gap.high < 0:
        return f"{gap.column}: the candidate is {high} to {low} below the baseline."
    return (
        f"{gap.column}: the arms do not differ clearly. The candidate is between {low} below and "
        f"{high} above the baseline."
    )


def write_preference(mean: float, low: float, high: float, users: int) -> str:
    """Say which arm users prefer. The preference is from -1 to 1, and above 0 for the candidate."""
    among = count_of(users, "user")
    if not users:
        return "No user has a click, so there is no preference."
    interval = f"{mean:+.3f} over {among}, and with a chance of 95 % {low:+.3f} to {high:+.3f}"
    if low > 0 or high < 0:
        arm = Arm.CANDIDATE if low > 0 else Arm.BASELINE
        return f"Users prefer the {arm}: the mean preference is {interval}."
    return f"No arm is clearly preferred: the mean preference is {interval}."


def write_split(results: UnpairedResults) -> tuple[str, ...]:
    """Say whether the users are split as planned, and how many users switched arms."""
    evidence = math.exp(min(results.log_e, _MOST_EVIDENCE))
    digits = 0 if evidence >= 1 else 2
    weighed = (
        f"the evidence against the plan is {evidence:,.{digits}f}, and {ENOUGH_EVIDENCE:,.0f} is "
        "the limit."
    )
    sentences = [f"The users are split as planned: {weighed}"]
    if evidence >= ENOUGH_EVIDENCE:
        baseline, candidate = (results.users[arm].assigned for arm in Arm)
        arms = write_off_split(baseline, candidate, results.baseline_share)
        sentences = [
            "The users are NOT split as planned, so nothing else can be trusted.",
            f"{arms[:1].upper()}{arms[1:]}. Chance practically cannot explain this: {weighed}",
        ]
    if results.switched:
        switched = count_of(results.switched, "user")
        sentences.append(f"Left out, because they switched arms since the test began: {switched}.")
    if results.served_by_other:
        sentences.append(f"{_write_served_by_other(results).capitalize()}.")
    return tuple(sentences)
