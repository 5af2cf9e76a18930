"""Writes the result of `rankwatch compare` for people who do not know the metrics."""

from collections.abc import Mapping

from monitor.model.interpretation import Interpretation, Likeness, TrainingDistance
from monitor.texts.wording import count_of

_LIKENESSES: Mapping[Likeness, str] = {
    Likeness.NEARLY_IDENTICAL: "the lists are nearly identical",
    Likeness.SIMILAR: "the lists are similar in part",
    Likeness.DIFFERENT: "the lists are mostly different",
    Likeness.RANDOM: "the lists are as different as random lists",
}


def write_interpretation(result: Interpretation) -> str:
    """Say how far apart the lists are, in terms of random lists and of two trainings of a model."""
    sentence = f"In short, {_write_likeness(result)}."
    if result.trainings is None:
        return sentence
    return f"{sentence} {_write_trainings(result.trainings)}"


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
    return (
        f"{_LIKENESSES[result.likeness]}: {result.metric} is {result.closeness:.0%} of the way "
        f"from random lists ({result.by_chance:.2f}) to identical lists ({result.identical:.2f})"
    )


def _write_trainings(trainings: TrainingDistance) -> str:
    second = f"a second training of its model ({trainings.mean:.2f})"
    if not trainings.is_exceeded:
        return f"The candidate is not clearly farther from the baseline than {second}."
    if trainings.ratio is None:
        return f"The candidate is farther from the baseline than {second}."
    return f"The candidate is {trainings.ratio:.1f} times as far from the baseline as {second}."
