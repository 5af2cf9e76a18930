"""The sentences of an explanation and of an alert's message about it: one line each, the same for the same figures."""

from collections.abc import Mapping, Sequence
from textwrap import shorten

from monitor.attribution.decomposition import AND, MeanDrop
from monitor.model.explanation import Explanation, FaultKind, Finding, Part, PartMeans, SegmentFall
from monitor.model.rankings import ALL, Arm
from monitor.texts.id_mismatches import write_mismatch, write_setting

LONGEST_SENTENCE = 250
"""Characters of what is said of a run."""

# Beyond how much of the drop one piece of it is given in amounts: others made up for the rest.
_WHOLE = 1.15

_LONGEST_NAME, _LONGEST_NOTE = 40, 140
_LEAST_AMOUNT = 0.00005
_LEAST_SHARE = 0.005
PART_WORDS: Mapping[Part, str] = {
    Part.MEMBERSHIP: "items replaced",
    Part.ORDER: "items moved",
    Part.LENGTH: "lists of other lengths",
    Part.COMPOSITION: "other users asked than before",
}
_WHAT: Mapping[FaultKind, str] = {
    FaultKind.IDENTICAL: "get the {other}'s list from the {arms}: both lists are identical",
    FaultKind.CUT_SHORT: "get shorter lists from the {arms}: {now} items instead of {before}",
    FaultKind.STALE: (
        "get the same list from the {arms} as in the last run, while other lists changed"
    ),
    FaultKind.ITEMS_GONE: (
        "had items that nobody gets from the {arms} any more: {items} items, "
        "{exposure} of what was shown"
    ),
    FaultKind.MIXED_UP: "get lists from the {arms} that are those of other users",
    FaultKind.NOISE: "get lists from the {arms} that look random: no user had such lists before",
    FaultKind.REPLACED: "are shown other items by the {arms} than before, many more than usual",
}
_ESTIMATED = (FaultKind.MIXED_UP, FaultKind.NOISE, FaultKind.REPLACED, FaultKind.REORDERED)

_MOSTLY = 0.5
"""Share of the users without a list from which on their lists are called empty."""

# Share of a shared list's items that must have been among the most listed ones to be called the
# most popular.
_POPULAR = 0.5

_WITHOUT_PAST = "No earlier lists to hold this against."

MOST_ITEMS = 3
"""Items of each kind that a message has room for."""


def write_lost(finding: Finding) -> str:
    """Who got no list in a run that could not be judged, from which arm, and why."""
    return f"{_write_who(finding)} {_write_missing(finding, ' and '.join(finding.arms))}."


def write_finding(finding: Finding, drop: MeanDrop | None, *, has_stood: bool | None = None) -> str:
    """What happened, to whom, in which arm, and how much of the drop (None: no earlier lists) it explains.

    ``has_stood``: the other arm did not change at all (True), no more than usual (False), or nothing can be said (None).
    """
    tail: list[str] = []
    if finding.spelling is not None and finding.spelling.forms:
        setting = write_setting(finding.spelling)
        tail.append(f"{setting[:1].upper()}{setting[1:]}.")
    if finding.kind is FaultKind.IDENTICAL:
        tail.append("Is the experiment applied?")
    if drop is None:
        tail.append(f"({_WITHOUT_PAST})")
    elif finding.explained is not None:
        is_all, is_none = finding.explained >= 1 - _LEAST_SHARE, finding.explained < _LEAST_SHARE
        share = "all" if is_all else "none" if is_none else _percent(finding.explained, 1)
        tail.append(f"This explains {share} of the drop.")
    elif drop.is_rise:
        tail.append(f"The similarity of all users rose by {-drop.whole:.4f}.")
    elif not drop.is_clear:
        tail.append(
            f"The similarity of all users {'hardly fell' if drop.whole > 0 else 'did not fall'}."
        )
    if has_stood is not None:
        (other,) = [arm for arm in Arm if arm not in finding.arms]
        tail.append(
            f"The {other} {'did not change' if has_stood else 'changed no more than usual'}."
        )
    return _join(
        [f"{_write_who(finding)} {_write_what(finding, ' and '.join(finding.arms))}.", *tail]
    )


def write_drop(drop: MeanDrop) -> str:
    """What brought the drop about where no fault stands out: where, and by which parts."""
    moved = f"{abs(drop.whole):.4f}"
    where = [] if drop.leader is None else [write_fall(drop.leader, drop.whole)]
    if drop.is_rise:
        return _join([f"Similarity rose by {moved}.", *where])
    if not drop.is_clear:
        return _join(
            [
                f"No clear drop: similarity fell by {moved}."
                if drop.whole > 0
                else f"No drop: similarity rose by {moved}.",
                *where,
            ]
        )
    # Other users are a cause that is clear.
    is_of_lists = max(Part, key=drop.parts.__getitem__) is not Part.COMPOSITION
    everybody = f"Similarity fell by {moved}{_write_parts(drop.parts, drop.whole)}."
    return _join([*(["No clear cause."] if is_of_lists else []), *where, everybody])


def write_distance(means: PartMeans) -> str:
    """What sets lists apart where nothing earlier is known: how far they lie from identical ones, and by which parts."""
    parts = {Part.MEMBERSHIP: means.membership, Part.ORDER: means.order, Part.LENGTH: means.length}
    return (
        f"{_WITHOUT_PAST} Lists lie {means.whole:.4f} from identical "
        f"ones{_write_parts(parts, means.whole)}."
    )


def write_fall(fall: SegmentFall, drop: float) -> str:
    """What one segment adds to everybody's ``drop``, in one sentence, also where it has not fallen."""
    name, within = shorten_name(fall.segment), fall.within
    if not (fall.share_before and within):
        return f"In {name} there is no fall to explain."
    moved = f"{abs(within) / fall.share_before:.4f}"
    if within < 0:
        return f"In {name} similarity rose by {moved}."
    is_shared = 0 < fall.whole <= _WHOLE * drop
    of_all = f", {_percent(min(fall.whole, drop), drop)} of everybody's drop" if is_shared else ""
    own = {part: amount / fall.share_before for part, amount in fall.parts.items()}
    return (
        f"In {name} similarity fell by "
        f"{moved}{of_all}{_write_parts(own, fall.whole / fall.share_before)}."
    )


def _write_parts(parts: Mapping[Part, float], whole: float) -> str:
    """A colon and the parts, largest first, in shares of the whole where none makes up for another, else in amounts."""
    is_shared = 0 < max(parts.values()) <= _WHOLE * whole
    least = max(_LEAST_AMOUNT, _LEAST_SHARE * whole if is_shared else 0.0)
    shown = [
        (
            f"{PART_WORDS[part]} "
            f"{_percent(min(amount, whole), whole) if is_shared else f'{amount:.4f}'}"
        )
        for part, amount in sorted(parts.items(), key=lambda entry: -entry[1])
        if (amount if is_shared else abs(amount)) >= least
    ]
    return f": {', '.join(shown)}" if shown else ""


def _write_who(finding: Finding) -> str:
    about = "About " if finding.kind in _ESTIMATED else ""
    who = f"{about}{finding.users:,} of {finding.compared:,} users ({_percent(finding.share, 1)})"
    if finding.segment == ALL:
        return who
    if finding.is_exact and not about:
        return f"{who}, exactly those of {shorten_name(finding.segment)},"
    return (
        f"{who}, mostly in {shorten_name(finding.segment)} ({_percent(finding.segment_share, 1)} "
        "of its users),"
    )


def _write_what(finding: Finding, arms: str) -> str:
    detail = finding.detail
    if finding.kind is FaultKind.SHARED_LIST:
        lists, popular = detail["lists"], detail["popular"] >= _POPULAR
        what = (
            f"all get the same list from the {arms}"
            if lists == 1
            else f"get one of {lists:.0f} lists from the {arms}"
        )
        return f"{what}: the most popular items" if popular else what
    if finding.kind is FaultKind.MISSING:
        return _write_missing(finding, arms)
    if finding.kind is FaultKind.RESPELLED:
        return _write_respelled(finding, arms)
    if finding.kind is FaultKind.REORDERED:
        return (
            f"get the same {'first three ' if detail['top'] else ''}items from the {arms}, "
            "but in another order"
        )
    figures = {
        name: f"{value:,.0f}" if value > 1 else _percent(value, 1) for name, value in detail.items()
    }
    return _WHAT[finding.kind].format(arms=arms, other=finding.arms[0].other, **figures)


def _write_missing(finding: Finding, arms: str) -> str:
    detail = finding.detail
    lists = "an empty list" if detail.get("empty", 0.0) >= _MOSTLY else "no list"
    before = f" ({_percent(detail['before'], 1)} before)" if "before" in detail else ""
    note = (
        ""
        if finding.note is None
        else f": {shorten(finding.note, _LONGEST_NOTE, placeholder=' …').rstrip('.')}"
    )
    return f"got {lists} from the {arms}{before}{note}"


def _write_respelled(finding: Finding, arms: str) -> str:
    if len(finding.arms) > 1:
        return (
            "get items whose ids are spelled otherwise by "
            f"{arms}{_write_spellings(finding, *finding.arms)}"
        )
    return (
        f"get items from the {arms} whose ids are spelled otherwise than "
        f"before{_write_spellings(finding, 'before', 'now')}"
    )


def _write_spellings(finding: Finding, first: str, second: str) -> str:
    if finding.spelling is None or finding.spelling.examples is None:
        return ""
    one, other = map(_shorten_part, finding.spelling.examples)
    return f": {one} ({first}), {other} ({second})"


def shorten_name(name: str) -> str:
    """A name from outside on one line of bounded length: nothing unprintable, nothing that steers a terminal or turns text."""
    return AND.join(_shorten_part(each) for each in name.split(AND, 1))


def _shorten_part(name: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in name).split())
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"


def _percent(amount: float, whole: float) -> str:
    percent = 100 * amount / whole
    return f"{percent:.1f} %" if 0.05 <= percent < 0.95 else f"{percent:.0f} %"  # noqa: PLR2004 - a decimal where there is no other


def _join(sentences: Sequence[str]) -> str:
    """As many of the sentences as fit; the first is never left out."""
    line = sentences[0]
    for each in sentences[1:]:
        line = f"{line} {each}" if len(line) + len(each) < LONGEST_SENTENCE else line
    return line


def write_alert_text(explanation: Explanation, metric: str, segment: str) -> str:
    """One bounded line for an alert on this metric and segment: the cause (and its metric if another), that fall, items."""
    by = [] if metric == explanation.metric else [f"By {explanation.metric}:"]
    return " ".join([*by, *write_falls(explanation, segment), *_write_items(explanation)])


def write_falls(explanation: Explanation, segment: str) -> tuple[str, ...]:
    """Sentences on everybody's fall, on this segment's where it is known, and on odd ids.

    What has a cause comes first.
    """
    fall = next((each for each in explanation.falls if each.segment == segment), None)
    sentence, hints = explanation.sentence, _write_hints(explanation)
    if segment == ALL or fall is None:
        return (sentence, *hints)
    own = write_fall(fall, explanation.drop)
    if explanation.finding:
        return (sentence, own, *hints)
    return (own, f"All users: {sentence[:1].lower()}{sentence[1:]}", *hints)


def _write_hints(explanation: Explanation) -> list[str]:
    """What is odd about the ids of the run, but for what the finding says already."""
    is_told = explanation.finding is not None and explanation.finding.kind is FaultKind.RESPELLED
    untold = [each for each in explanation.id_mismatches if not (is_told and each.is_spelling)]
    sentences = map(write_mismatch, untold)
    return [f"{each[:1].upper()}{each[1:]}." for each in sentences]


def _write_items(explanation: Explanation) -> list[str]:
    where = "" if explanation.segment == ALL else f" in {shorten_name(explanation.segment)}"
    pieces = [
        f"{word}: {', '.join(shorten_name(each.title or each.item) for each in items[:MOST_ITEMS])}"
        for word, items in (("more", explanation.gained), ("less", explanation.lost))
        if items
    ]
    return [f"Items shown{where} {'; '.join(pieces)}."] if pieces else []
