"""What an alert's message says of an explanation: the sentence, its segment's share, and the items that moved most."""

from __future__ import annotations

import math
from collections.abc import Sequence

from monitor.explaining.sentence import shorten, write_fall
from monitor.model import ALL, Explanation, ExposedItem

ITEMS = 3
"""Items of each kind that a message has room for."""


def tell(explanation: Explanation, *, metric: str, segment: str) -> str:
    """A few sentences on one line for an alert on this metric and segment: that segment's fall first, then everybody's.

    Says by which metric where it is another one. Bounded, whatever ids and titles hold.
    """
    by = [] if metric == explanation.metric else [f"By {explanation.metric}:"]
    return " ".join([*by, *tell_falls(explanation, segment), *_tell_items(explanation)])


def tell_falls(explanation: Explanation, segment: str) -> tuple[str, ...]:
    """A sentence on this segment's fall, where it is known, and one on everybody's."""
    fall = next((each for each in explanation.falls if each.segment == segment), None)
    sentence = explanation.sentence
    if segment == ALL or fall is None:
        return (sentence,)
    return (write_fall(fall, _drop(explanation)), f"All users: {sentence[:1].lower()}{sentence[1:]}")


def _drop(explanation: Explanation) -> float:
    return math.nan if explanation.before is None else explanation.now - explanation.before


def _tell_items(explanation: Explanation) -> list[str]:
    where = "" if explanation.segment == ALL else f" in {shorten(explanation.segment)}"
    told = [f"{word}: {_name(items)}" for word, items in (("more", explanation.gained), ("less", explanation.lost)) if items]
    return [f"Items shown{where} {'; '.join(told)}."] if told else []


def _name(items: Sequence[ExposedItem]) -> str:
    return ", ".join(shorten(each.title or each.item) for each in items[:ITEMS])
