"""Writes the result of `rankwatch compare` for people who do not know the metrics.

docs/explanation/compare.md defines the words.
"""

from collections.abc import Mapping, Sequence

from monitor.model.interpretation import (
    Concentration,
    Interpretation,
    Likeness,
    Spread,
    TrainingDistance,
)
from monitor.model.rankings import ALL
from monitor.model.runs import ArmScore
from monitor.model.statistics import ListTrait
from monitor.texts.wording import count_of, write_percent

_LIKENESSES: Mapping[Likeness, str] = {
    Likeness.NEARLY_IDENTICAL: "the lists are nearly identical",
    Likeness.SIMILAR: "the lists are similar in part",
    Likeness.DIFFERENT: "the lists are mostly different",
    Likeness.RANDOM: "the lists are as different as random lists",
}
_CONCENTRATIONS: Mapping[Concentration, str] = {
    Concentration.FEW_USERS: "concentrated in few users",
    Concentration.MANY_USERS: "spread over many users",
}
_MOST_SEGMENTS = 5
_NO_VERDICT = (Likeness.IDENTICAL, Likeness.UNCERTAIN, Likeness.BELOW_RANDOM)


def write_interpretation(result: Interpretation, *, has_segments: bool = False) -> tuple[str, ...]:
    """Compare the distance between the arms with a retraining and with random lists.

    ``has_segments`` says whether the command has also compared segments.
    """
    lines = []
    likeness = _write_likeness(result)
    if result.trainings is None:
        lines.append(f"In short, {likeness}.")
        if result.likeness not in _NO_VERDICT:
            lines.append(
                "Only a second training of the baseline shows whether this is much: add "
                "--retrained FILE."
            )
    else:
        lines.append(f"In short, {_write_trainings(result, result.trainings)}.")
        lines.append("Decide by this. It rests on one retraining, and another one may differ.")
        lines.append(f"Compared with random lists, {likeness}.")
    if result.spread is not None and result.likeness not in _NO_VERDICT:
        lines.append(_write_spread(result.spread))
        if not has_segments:
            lines.append("To see for whom: --by COLUMN --users FILE, or --worst 5.")
    return tuple(lines)


def write_other_metrics(
    first: Interpretation, others: Sequence[Interpretation | None]
) -> list[str]:
    """Write a line for each metric by which the lists are more or less similar than by the first.

    An interpretation is None if the metric cannot be interpreted. Nothing is written if two trainings are
    compared, because people decide by their distance then.
    """
    if first.trainings is not None:
        return []
    lines = []
    for other in others:
        if other is not None and other.likeness is not first.likeness:
            lines.append(f"By {other.metric}, {_write_likeness(other)}.")
    return lines


def write_first_differs(score: ArmScore) -> list[str]:
    """Say how many users get a different first item. Nothing is written if there are none."""
    if not score.value:
        return []
    users = round(score.value * score.n)
    of_users = f"{users:,} of {count_of(score.n, 'user')} ({write_percent(score.value)})"
    return [f"The first item differs for {of_users}."]


def write_shared(scores: Sequence[ArmScore], segment: str = ALL) -> list[str]:
    """Say for each arm how many users of the segment get one and the same list.

    ``scores`` are shares of users, measured as `ListTrait.SHARED`.
    """
    lines = []
    for score in scores:
        if score.segment == segment and score.value is not None:
            share = write_percent(score.value)
            lines.append(f"{share} of the users get one and the same list from the {score.arm}.")
    return lines


def write_segments(
    segments: Mapping[str, Interpretation], shared: Sequence[ArmScore]
) -> tuple[str, ...]:
    """Write a line for each of the most different segments. ``shared`` are notable shares."""
    if not segments:
        return ()
    ordered = sorted(segments, key=lambda segment: segments[segment].excess, reverse=True)
    lines = ["The segments, the most different first:"]
    for segment in ordered[:_MOST_SEGMENTS]:
        sentences = [_write_segment(segments[segment]), *write_shared(shared, segment)]
        lines.append(f"{segment}: {' '.join(sentences)}")
    left_out = len(ordered) - _MOST_SEGMENTS
    if left_out > 0:
        lines.append(f"{count_of(left_out, 'further segment')} above.")
    return tuple(lines)


def _write_segment(result: Interpretation) -> str:
    mean = f"{result.metric} is {result.mean:.2f}"
    trainings = result.trainings
    if trainings is None:
        closeness = write_percent(result.closeness)
        return f"{mean}, {closeness} of the way from random to identical lists."
    return f"{mean}. The candidate is {_compare_trainings(trainings)}."


def write_longer(longest: int, k: int) -> str:
    """Say that the lists have more items than were compared."""
    return (
        f"the lists have up to {count_of(longest, 'item')}, and k is {k:,}: an item from a later "
        f"place counts as new. To compare all items: -k {longest}"
    )


def write_arm_metric(name: str) -> str:
    """Say why `compare` cannot compute this metric, and what to do."""
    reason = f"{name} measures all lists of one arm, not pairs of lists"
    if name == ListTrait.FIRST_DIFFERS:
        reason = f"{name} is no score of a single user"
        return f"{reason}. The share of users with the same first item: -m overlap -k 1"
    return f"{reason}: set it under arm_metrics: in a configuration"


def _write_likeness(result: Interpretation) -> str:
    if result.likeness is Likeness.IDENTICAL:
        return "the lists are identical"
    if result.likeness is Likeness.UNCERTAIN:
        return (
            f"{count_of(result.users, 'user')} cannot show whether the lists are more similar than "
            "random lists: compare more users"
        )
    if result.likeness is Likeness.BELOW_RANDOM:
        return (
            f"the lists are less similar than random lists ({result.metric} is {result.mean:.2f}, "
            f"and {result.by_chance:.2f} by chance): check that both arms use the same item ids"
        )
    closeness = write_percent(result.closeness)
    return (
        f"{_LIKENESSES[result.likeness]}: {result.metric} is {closeness} of the way "
        f"from random lists ({result.by_chance:.2f}) to identical lists ({result.identical:.2f})"
    )


def _write_trainings(result: Interpretation, trainings: TrainingDistance) -> str:
    means = (
        f"{result.metric} is {result.mean:.2f} for the candidate and {trainings.mean:.2f} for the "
        "retraining"
    )
    return f"the candidate is {_compare_trainings(trainings)}: {means}"


def _compare_trainings(trainings: TrainingDistance) -> str:
    if not trainings.is_exceeded:
        return "not clearly farther from the baseline than the baseline's retraining"
    if trainings.ratio is None:
        return "farther from the baseline than the baseline's retraining"
    times = f"{trainings.ratio:.1f} times"
    return f"{times} as far from the baseline as the baseline's retraining"


def _write_spread(spread: Spread) -> str:
    difference = "The difference beyond a retraining" if spread.is_excess else "The difference"
    return (
        f"{difference} is {_CONCENTRATIONS[spread.concentration]}: half of it is in the lists of "
        f"{write_percent(spread.half_share)} of the users."
    )
