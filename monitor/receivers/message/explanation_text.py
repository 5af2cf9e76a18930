"""The explanation of a run as text: sentences, shares of the drop, items, and two users' lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from monitor.attribution.sentences import PART_WORDS, write_falls
from monitor.model.alerts import Transition
from monitor.model.explanation import ExampleLists, Explanation, ExposedItem
from monitor.model.notifications import Briefing
from monitor.model.rankings import ALL, Arm
from monitor.presentation import explanation_title, side_by_side
from monitor.receivers.message.safe_text import bounded_line, clean

MAX_ITEMS = 5
"""Items shown that rose, and that fell."""

MAX_EXAMPLES = 2
"""Users whose lists are shown."""

MAX_RANKS = 10
"""Rows of a list that are shown; the rest is counted."""

_LONGEST_SENTENCE = 400
_LONGEST_ITEM = 60
_LONGEST_LINE = 160
_CANCELLED = 3.0
_NOTHING = frozenset({"0 %", "0.0000"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """A user's lists: rows of rank, the baseline's item and the candidate's, empty where a list has ended.

    Items are marked as gone, new, or with the rank they were at; a last row without a rank counts what is not shown.
    """

    user: str
    rows: tuple[tuple[str, str, str], ...]


def why_sentences(speaker: Transition, explanation: Explanation | None) -> tuple[str, ...]:
    """Sentences on why this change came about; without the run's explanation the explanation that the change itself has."""
    if explanation is None:
        return (bounded_line(speaker.explanation or "", 3 * _LONGEST_SENTENCE),)
    first, *further = write_falls(explanation, speaker.segment)
    head = "" if speaker.metric == explanation.metric else f"{explanation_title(explanation)}: "
    lines = [f"{head}{first}", *further, *_item_counts(explanation)]
    return tuple(bounded_line(line, _LONGEST_SENTENCE) for line in lines)


def cause_shares(explanation: Explanation) -> tuple[tuple[str, str], ...]:
    """Each part of the drop and its share of it; amounts where parts cancel out."""
    drop, causes = explanation.drop, explanation.causes
    # Parts that cancel out leave a small drop, shares of which would mislead.
    is_shared = drop > 0 and max((abs(cause.amount) for cause in causes), default=0.0) <= _CANCELLED * drop
    shown = ((each.part, _percent(each.amount / drop) if is_shared else f"{each.amount:+.4f}") for each in causes)
    return tuple((PART_WORDS[part], text) for part, text in shown if text.lstrip("+-") not in _NOTHING)


def item_lines(items: Sequence[ExposedItem], arm: Arm | None) -> tuple[str, ...]:
    """``Red shoes (sku-1): in 3 % of candidate lists before, 61 % now``, or without an arm in baseline and candidate lists."""
    then, now = (" of baseline lists", " of candidate lists") if arm is None else (f" of {arm} lists before", " now")
    lines = (
        f"{_name(each)}: in {_percent(each.share_before)}{then}, {_percent(each.share_after)}{now}"
        for each in items[:MAX_ITEMS]
    )
    return tuple(bounded_line(line, _LONGEST_LINE) for line in lines)


def example_lists(briefing: Briefing) -> tuple[SideBySide, ...]:
    """Lists of two users, of different groups unless they were chosen."""
    explanation = briefing.explanation
    examples = briefing.examples or (explanation.examples if explanation else ())
    known = () if explanation is None else (*explanation.gained, *explanation.lost)
    titles = {each.item: each.title for each in known if each.title} | dict(explanation.titles if explanation else {})
    return tuple(
        SideBySide(user=bounded_line(each.user, _LONGEST_ITEM), rows=tuple(_rows(each, titles)))
        for each in examples[:MAX_EXAMPLES]
    )


def _item_counts(explanation: Explanation) -> list[str]:
    if not (explanation.entered or explanation.left):
        return []
    of = "" if explanation.segment == ALL else f" of {clean(explanation.segment, _LONGEST_ITEM)}"
    entered, left = (f"{count:,} item{'' if count == 1 else 's'}" for count in (explanation.entered, explanation.left))
    return [f"{entered} entered the lists{of}, {left} left them."]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _name(item: ExposedItem) -> str:
    ours = clean(item.item, _LONGEST_ITEM // 2)
    return f"{clean(item.title, _LONGEST_ITEM)} ({ours})" if item.title else ours


def _rows(example: ExampleLists, titles: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    kept = {"", *example.candidate}

    def show(item: str, mark: str) -> str:
        told = clean(titles.get(item, item), _LONGEST_ITEM)
        return bounded_line(f"{told} ({mark})" if mark else told, _LONGEST_ITEM + 20)

    shown = islice(side_by_side(example.baseline, example.candidate), MAX_RANKS)
    for rank, (left, right, moved) in enumerate(shown, start=1):
        yield str(rank), show(left, "" if left in kept else "gone"), show(right, moved)
    rest = [max(len(items) - MAX_RANKS, 0) for items in (example.baseline, example.candidate)]
    if any(rest):
        left, right = (f"{count:,} more" if count else "" for count in rest)
        yield "", left, right
