"""The sentences of an explanation and of an alert's message about it: one line each, the same for the same figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from monitor.attribution.causes import AND, rank_causes
from monitor.attribution.decomposition import WITHIN, MeanDrop, SegmentDrop
from monitor.model import ALL, Arm, Cause, Explanation, FaultKind, Finding, Part, PartMeans, SegmentFall

LONGEST_SENTENCE = 250
"""Characters of what is said of a run."""

# Of pieces as many are said as fit into this, the last ones first left out; a remark may follow.
_LONGEST_PIECES = 200

# Standard errors over users below which a drop is not broken down: its shares would be noise.
CLEAR = 2.0

# From how many times the drop one piece of it is given in amounts: shares of what little is left would mislead.
CANCELLED = 3.0

_LONGEST_NAME = 40
_LEAST_AMOUNT = 0.00005
_LEAST_SHARE = 0.005
_WORDS: Mapping[Part, str] = {
    Part.MEMBERSHIP: "items replaced",
    Part.ORDER: "items moved",
    Part.LENGTH: "lists of other lengths",
    Part.COMPOSITION: "other users asked than before",
    Part.MISSING: "other users answered than before",
}
_WHAT: Mapping[FaultKind, str] = {
    FaultKind.MISSING: "got no list from the {arms} ({before} before)",
    FaultKind.CUT_SHORT: "get shorter lists from the {arms}: {now} items instead of {before}",
    FaultKind.STALE: "get the same list from the {arms} as in the last run, while other lists changed",
    FaultKind.ITEMS_GONE: "had items that nobody gets from the {arms} any more: {items} items, {exposure} of what was shown",
    FaultKind.MIXED_UP: "get lists from the {arms} that are those of other users",
    FaultKind.NOISE: "get lists from the {arms} that look random: no user had such lists before",
    FaultKind.REPLACED: "are shown other items by the {arms}, many more than usual",
}
_ESTIMATED = (FaultKind.MIXED_UP, FaultKind.NOISE, FaultKind.REPLACED, FaultKind.REORDERED)

# Share of a shared list's items that must have been among the most listed ones to be called the most popular.
_POPULAR = 0.5

UNEXPLAINED = "No clear cause."
WITHOUT_LISTS = "(No lists of earlier runs are kept.)"


def is_clear(drop: MeanDrop) -> bool:
    """Whether the mean fell by more than chance among users alone could do."""
    return drop.whole > 0 and drop.whole >= CLEAR * drop.noise


def write_finding(finding: Finding, drop: MeanDrop, *, has_stood: bool | None = None) -> str:
    """What happened, to how many and whom, in which arm, and how much of the drop it explains; at most `LONGEST_SENTENCE`.

    ``has_stood``: whether the other arm did not change at all (True) or no more than
    usual (False), None where nothing can be said of it.
    """
    line = f"{_write_who(finding)} {_write_what(finding, ' and '.join(finding.arms))}."
    tail: list[str] = []
    if finding.explained is None and not is_clear(drop):
        tail.append(f"The mean of all users {'hardly fell' if drop.whole > 0 else 'did not fall'}.")
    if finding.explained is not None:
        is_all, is_none = finding.explained >= 1 - _LEAST_SHARE, finding.explained < _LEAST_SHARE
        share = "all" if is_all else "none" if is_none else _percent(finding.explained, 1)
        tail.append(f"This explains {share} of the drop.")
    if has_stood is not None:
        (other,) = [arm for arm in Arm if arm not in finding.arms]
        tail.append(f"The {other} {'did not change' if has_stood else 'changed no more than usual'}.")
    for each in tail:
        line = f"{line} {each}" if len(line) + len(each) < LONGEST_SENTENCE else line
    return line


def _write_who(finding: Finding) -> str:
    about = "About " if finding.kind in _ESTIMATED else ""
    who = f"{about}{finding.users:,} of {finding.compared:,} users ({_percent(finding.share, 1)})"
    if finding.segment == ALL:
        return who
    return f"{who}, mostly in {shorten_name(finding.segment)} ({_percent(finding.segment_share, 1)} of its users),"


def _write_what(finding: Finding, arms: str) -> str:
    detail = finding.detail
    if finding.kind is FaultKind.SHARED_LIST:
        lists, popular = detail["lists"], detail["popular"] >= _POPULAR
        what = f"all get the same list from the {arms}" if lists == 1 else f"get one of {lists:.0f} lists from the {arms}"
        return f"{what}: the most popular items" if popular else what
    if finding.kind is FaultKind.REORDERED:
        return f"get the same {'first three ' if detail['top'] else ''}items from the {arms}, but in another order"
    figures = {name: f"{value:,.0f}" if value > 1 else _percent(value, 1) for name, value in detail.items()}
    return _WHAT[finding.kind].format(arms=arms, **figures)


def write_sentence(drop: MeanDrop, leader: SegmentDrop | None = None, *, left: int = 0) -> str:
    """What brought the drop about where no fault stands out, in one line.

    ``leader`` from `find_leader`; ``left``: items that left its users' lists altogether, or everybody's.
    """
    causes = rank_causes(drop, leader)
    what = _describe(causes[0], left)
    return _join(_write_drop(drop, causes, what) if is_clear(drop) else [_write_no_drop(drop, leader, what)])


def write_distance(total: PartMeans | None) -> str:
    """What sets lists apart where there is no past: how far they lie from identical ones, and by which parts."""
    if total is None or not total.n:
        return "No user's lists have a score, so there is nothing to explain."
    parts = {part: float(getattr(total, part)) for part in WITHIN}
    apart = f"lists lie {total.whole:.4f} from identical ones"
    return _join([f"no healthy run to hold this against: {apart}", *_write_parts(parts, total.whole)])


def write_fall(fall: SegmentFall, drop: float) -> str:
    """What one segment adds to everybody's ``drop``, in one sentence, also where it has not fallen."""
    name, within = shorten_name(fall.segment), math.fsum(fall.parts[part] for part in WITHIN)
    if not (fall.share and within):
        return _join([f"in {name} there is no fall to explain"])
    moved = f"{abs(within) / fall.share:.4f}"
    if within < 0:
        return _join([f"in {name} the mean rose by {moved}"])
    is_shared = fall.whole > 0 and drop > 0 and fall.whole <= CANCELLED * drop
    of_all = f", {_percent(fall.whole, drop)} of everybody's drop" if is_shared else ""
    return _join([f"in {name} the mean fell by {moved}{of_all}", *_write_parts(fall.parts, fall.whole)])


def _write_parts(parts: Mapping[Part, float], whole: float) -> list[str]:
    """The parts, largest first, in shares of the whole where they do not cancel out, else in amounts."""
    causes = [Cause(part=part, amount=amount) for part, amount in parts.items()]
    largest = max(abs(cause.amount) for cause in causes)
    is_shared = whole > 0 and largest <= CANCELLED * whole
    least = _LEAST_SHARE * whole if is_shared else 0.0
    pieces = [cause for cause in sorted(causes, key=lambda cause: -abs(cause.amount)) if abs(cause.amount) >= least]
    return _write_rest(pieces, whole if is_shared else None)


def shorten_name(name: str) -> str:
    """A name from outside on one line of bounded length: nothing unprintable, nothing that steers a terminal or turns text."""
    return AND.join(_shorten_part(each) for each in name.split(AND, 1))


def _shorten_part(name: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in name).split())
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"


def _write_no_drop(drop: MeanDrop, leader: SegmentDrop | None, what: str) -> str:
    moved = f"{abs(drop.whole):.4f}"
    has_fallen = drop.whole > 0
    line = f"no clear drop: the mean fell by {moved}" if has_fallen else f"no drop: the mean rose by {moved}"
    if leader is None or not leader.share:
        return line
    also = "" if has_fallen else "but fell "
    return f"{line}, {also}by {leader.whole / leader.share:.4f} in {shorten_name(leader.segment)}, {what}"


def _write_drop(drop: MeanDrop, causes: Sequence[Cause], what: str) -> list[str]:
    first = causes[0]
    where = "everywhere" if first.segment is None else shorten_name(first.segment)
    if max(abs(cause.amount) for cause in causes) > CANCELLED * drop.whole:
        return [f"{first.amount:.4f} against a drop of {drop.whole:.4f}: {where}, {what}", *_write_rest(causes[1:], None)]
    share = "all" if drop.whole - first.amount < _LEAST_SHARE * drop.whole else _percent(first.amount, drop.whole)
    rest = [cause for cause in causes[1:] if abs(cause.amount) >= _LEAST_SHARE * drop.whole]
    return [f"{share} of the drop: {where}, {what}", *_write_rest(rest, drop.whole)]


def _write_rest(causes: Sequence[Cause], whole: float | None) -> list[str]:
    """What adds to the drop piece by piece, then together what offsets it; in shares of ``whole``, or else in amounts."""

    def phrase(cause: Cause) -> str:
        amount = abs(cause.amount)
        shown = f"{amount:.4f}" if whole is None else _percent(amount, whole)
        return f"{cause.part}{' elsewhere' if cause.is_rest else ''} {shown}"

    pieces = [cause for cause in causes if abs(cause.amount) >= _LEAST_AMOUNT]
    offset = [phrase(cause) for cause in pieces if cause.amount < 0]
    return [phrase(cause) for cause in pieces if cause.amount > 0] + ([f"offset by {', '.join(offset)}"] if offset else [])


def _describe(cause: Cause, left: int) -> str:
    if cause.part is Part.MEMBERSHIP and left:
        return f"{left:,} {'item' if left == 1 else 'items'} left their lists"
    return _WORDS[cause.part]


def _percent(amount: float, whole: float) -> str:
    percent = 100 * amount / whole
    return f"{percent:.1f} %" if 0.05 <= percent < 0.95 else f"{percent:.0f} %"  # noqa: PLR2004 - a decimal where there is no other


def _join(pieces: Sequence[str]) -> str:
    """As many pieces as fit, as one sentence; the first is never left out."""
    line = pieces[0] if len(pieces[0]) < _LONGEST_PIECES else f"{pieces[0][: _LONGEST_PIECES - 2]}…"
    for piece in pieces[1:]:
        if len(line) + len(piece) + 3 <= _LONGEST_PIECES:
            line = f"{line}; {piece}"
    return f"{line[0].upper()}{line[1:]}."


MOST_ITEMS = 3
"""Items of each kind that a message has room for."""


def write_alert_text(explanation: Explanation, *, metric: str, segment: str) -> str:
    """A few sentences on one line for an alert on this metric and segment: that segment's fall first, then everybody's.

    Names the metric where it is another one. Bounded, whatever ids and titles hold.
    """
    by = [] if metric == explanation.metric else [f"By {explanation.metric}:"]
    return " ".join([*by, *write_falls(explanation, segment), *_write_items(explanation)])


def write_falls(explanation: Explanation, segment: str) -> tuple[str, ...]:
    """A sentence on this segment's fall, where it is known, and one on everybody's."""
    fall = next((each for each in explanation.falls if each.segment == segment), None)
    sentence = explanation.sentence
    if segment == ALL or fall is None:
        return (sentence,)
    drop = math.nan if explanation.before is None else explanation.now - explanation.before
    return (write_fall(fall, drop), f"All users: {sentence[:1].lower()}{sentence[1:]}")


def _write_items(explanation: Explanation) -> list[str]:
    where = "" if explanation.segment == ALL else f" in {shorten_name(explanation.segment)}"
    pieces = [
        f"{word}: {', '.join(shorten_name(each.title or each.item) for each in items[:MOST_ITEMS])}"
        for word, items in (("more", explanation.gained), ("less", explanation.lost))
        if items
    ]
    return [f"Items shown{where} {'; '.join(pieces)}."] if pieces else []
