"""Adds the titles of items, for people."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import methodcaller

from monitor.boundary.deadline import Deadline
from monitor.model import ports
from monitor.model.explanation import Explanation, ExposedItem
from monitor.model.runs import MeasuredRun, worst_examples
from monitor.pipeline.pull import AskedSource

TITLES_S = 5.0
"""A run waits at most this many seconds for titles of items, because its alerts wait too."""
TITLED_ITEMS = 10
"""Only this many items of an example's lists get titles, because titles are stored."""


def add_titles(
    run: MeasuredRun, source: ports.ItemTitleSource | None, timeout_s: float
) -> tuple[Explanation | None, str | None]:
    """Add titles of the items that messages show to the explanation of the run.

    Messages show the items that users see more or less often, and the first items of the example
    lists. Returns the explanation, and the error of the source, or None.
    """
    explanation = run.explanation
    if explanation is None:
        return None, None
    items = {exposed.item for exposed in (*explanation.gained, *explanation.lost)}
    for example in explanation.examples or worst_examples(run.evidence):
        items.update(example.baseline[:TITLED_ITEMS], example.candidate[:TITLED_ITEMS])
    titles, error = pull_titles(source, run.slot, items, timeout_s)

    def add_each(exposed: Sequence[ExposedItem]) -> tuple[ExposedItem, ...]:
        return tuple(replace(item, title=titles.get(item.item)) for item in exposed)

    if titles:
        explanation = replace(
            explanation,
            gained=add_each(explanation.gained),
            lost=add_each(explanation.lost),
            titles=titles,
        )
    return explanation, error


def pull_titles(
    source: ports.ItemTitleSource | None,
    slot: datetime,
    items: Collection[str],
    timeout_s: float = TITLES_S,
) -> tuple[Mapping[str, str], str | None]:
    """Return the titles of these items, and a sentence on what failed, or None.

    Waits at most ``timeout_s``, and never longer than `TITLES_S`.
    """
    if source is None or not items:
        return {}, None
    wait_s = max(0.0, min(timeout_s, TITLES_S))
    titles: AskedSource[Mapping[str, str]] = AskedSource(
        "item_titles", source, methodcaller("titles", slot, items)
    )
    late_message = f"no answer within {wait_s:.0f} s: items are shown by their ids"
    failure = titles.wait(Deadline.after(wait_s), late_message)
    return titles.answer or {}, failure
