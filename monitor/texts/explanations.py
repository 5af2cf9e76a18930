"""Writes the sentences of an explanation and of an alert's text from figures, one line each."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import itemgetter
from textwrap import shorten

from monitor.model.explanation import (
    Explanation,
    FaultKind,
    Finding,
    MeanDrop,
    Part,
    PartMeans,
    SegmentFall,
)
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL, Arm
from monitor.model.segments import AND
from monitor.texts.id_mismatches import write_mismatch, write_setting
from monitor.texts.wording import printable, shorten_to

LONGEST_SENTENCE = 250
"""The largest number of characters of an explanation's text."""

# If a part is larger than this multiple of the drop, other parts made up for it. Then all parts are
# written as amounts, not as shares.
_CANCELLED = 1.15

_LONGEST_NAME = 40
_LONGEST_NOTE = 140
_LEAST_AMOUNT = 0.00005
_LEAST_SHARE = 0.005
PART_WORDS: Mapping[Part, str] = {
    Part.MEMBERSHIP: "items replaced",
    Part.ORDER: "items moved",
    Part.LENGTH: "lists of other lengths",
    Part.COMPOSITION: "different users asked",
}
_WHAT: Mapping[FaultKind, str] = {
    FaultKind.IDENTICAL: "get the {other}'s list from the {arms}: both lists are identical",
    FaultKind.CUT_SHORT: "get {lists} from the {arms}: {now} {items} instead of {before}",
    FaultKind.STALE: (
        "get the same list from the {arms} as in the last run, while other lists changed"
    ),
    FaultKind.ITEMS_GONE: (
        "had items that nobody gets from the {arms} any more: {items} items, "
        "{exposure} of what was shown"
    ),
    FaultKind.MIXED_UP: "get lists from the {arms} that belong to other users",
    FaultKind.NOISE: "get lists from the {arms} that look random: no user had such lists before",
    FaultKind.REPLACED: "get many more new items from the {arms} than usual",
}
_ESTIMATED = (FaultKind.MIXED_UP, FaultKind.NOISE, FaultKind.REPLACED, FaultKind.REORDERED)

_MOSTLY = 0.5
"""The text says that lists are empty, or have duplicates, if this share of the lists is so."""

# The text says "the most popular items" if at least this share of a shared list's items were among
# the most listed items before.
_POPULAR = 0.5

_WITHOUT_PAST = "No earlier lists to compare with."

MOST_ITEMS = 3
"""An alert's text names at most this many items that gained, and as many that lost."""


def write_lost(finding: Finding) -> str:
    """Which users got no list in a run that could not be judged, from which arm, and why."""
    return _join([f"{write_cause(finding)}.", *_write_share(finding)])


def write_cause(finding: Finding) -> str:
    """What happened, to which users and in which arm. Without a full stop."""
    return f"{_write_who(finding)} {_write_what(finding, ' and '.join(finding.arms))}"


def write_finding(finding: Finding, drop: MeanDrop | None, *, has_stood: bool | None = None) -> str:
    """What happened, to which users, in which arm, and how much of the drop it explains.

    ``drop`` is None without earlier lists. ``has_stood`` is True if the other arm did not change.
    It is False if that arm changed no more than usual, and None if neither is known.
    """
    sentences = [f"{write_cause(finding)}.", *_write_share(finding)]
    if finding.spelling is not None and finding.spelling.forms:
        sentences.append(f"{_capitalize(write_setting(finding.spelling))}.")
    if finding.kind is FaultKind.IDENTICAL:
        sentences.append("Is the experiment applied?")
    sentences.append(_write_effect(finding, drop))
    if has_stood is not None:
        (other,) = set(Arm) - set(finding.arms)
        change = "did not change" if has_stood else "changed no more than usual"
        sentences.append(f"The {other} {change}.")
    return _join(filter(None, sentences))


def _write_effect(finding: Finding, drop: MeanDrop | None) -> str:
    """How the similarity of all users changed. Empty for a clear drop without a known share."""
    if drop is None:
        return f"({_WITHOUT_PAST})"
    if finding.explained is not None:
        return f"This explains {_write_explained(finding.explained)} of the drop."
    if drop.is_rise and finding.kind is FaultKind.IDENTICAL:
        return f"The similarity of all users rose by {-drop.amount:.4f}."
    if drop.is_clear:
        return ""
    verb = "hardly fell" if drop.amount > 0 else "did not fall"
    return f"The similarity of all users {verb}."


def write_recalled(sentence: str, slot: datetime) -> str:
    """The sentence of an explanation that an earlier run made."""
    return f"Since the run of {format_instant(slot)}: {sentence}"


def _write_explained(share: float) -> str:
    if share >= 1 - _LEAST_SHARE:
        return "all"
    if share < _LEAST_SHARE:
        return "none"
    return _percent(share, 1)


def write_drop(drop: MeanDrop) -> str:
    """In which segment the mean fell, and by which parts. Used for a drop without a fault."""
    amount = f"{abs(drop.amount):.4f}"
    where = []
    if drop.leader is not None:
        where = [write_fall(drop.leader, drop.amount)]
    if drop.is_rise:
        return _join([f"Similarity rose by {amount}.", *where])
    if not drop.is_clear and drop.amount > 0:
        return _join([f"No clear drop: similarity fell by {amount}.", *where])
    if not drop.is_clear:
        return _join([f"No drop: similarity rose by {amount}.", *where])
    fell = f"Similarity fell by {amount}{_write_parts(drop.parts, drop.amount)}."
    largest = max(Part, key=drop.parts.__getitem__)
    if largest is Part.COMPOSITION:
        # If other users were asked, the cause is clear.
        return _join([*where, fell])
    return _join(["No clear cause.", *where, fell])


def write_distance(means: PartMeans) -> str:
    """How far both arms' lists are from identical lists, and by which parts.

    Used if there are no earlier lists.
    """
    parts = {Part.MEMBERSHIP: means.membership, Part.ORDER: means.order, Part.LENGTH: means.length}
    return (
        f"{_WITHOUT_PAST} The distance from identical lists is {means.whole:.4f}"
        f"{_write_parts(parts, means.whole)}."
    )


def write_fall(fall: SegmentFall, drop: float) -> str:
    """One sentence on how a segment's mean changed, with its share of the ``drop`` of all users."""
    name = shorten_name(fall.segment)
    within = fall.within
    share = fall.share_before
    if not (share and within):
        return f"In {name} there is no fall to explain."
    amount = f"{abs(within) / share:.4f}"
    if within < 0:
        return f"In {name} similarity rose by {amount}."
    of_all = ""
    if 0 < fall.whole <= _CANCELLED * drop:
        of_all = f", {_percent(min(fall.whole, drop), drop)} of everybody's drop"
    per_user = {part: part_sum / share for part, part_sum in fall.parts.items()}
    parts = _write_parts(per_user, fall.whole / share)
    return f"In {name} similarity fell by {amount}{of_all}{parts}."


def _write_parts(parts: Mapping[Part, float], total: float) -> str:
    """A colon and the parts, the largest first.

    The parts are written as shares of the total. If they cancel each other out, they are written as
    amounts.
    """
    is_shared = 0 < max(parts.values()) <= _CANCELLED * total
    shown = []
    for part, amount in sorted(parts.items(), key=itemgetter(1), reverse=True):
        if is_shared and amount >= max(_LEAST_AMOUNT, _LEAST_SHARE * total):
            shown.append(f"{PART_WORDS[part]} {_percent(min(amount, total), total)}")
        elif not is_shared and abs(amount) >= _LEAST_AMOUNT:
            shown.append(f"{PART_WORDS[part]} {amount:.4f}")
    return f": {', '.join(shown)}" if shown else ""


def _write_who(finding: Finding) -> str:
    is_estimated = finding.kind in _ESTIMATED
    who = f"{finding.users:,} of {finding.compared:,} users ({_percent(finding.share, 1)})"
    if is_estimated:
        who = f"About {who}"
    if finding.segment == ALL:
        return who
    segment = shorten_name(finding.segment)
    if finding.is_exact and not is_estimated:
        return f"{who}, exactly the users in {segment},"
    return f"{who}, most of them in {segment},"


def _write_share(finding: Finding) -> list[str]:
    """The share of the segment's users with the fault, if the first sentence does not say it."""
    is_exact = finding.is_exact and finding.kind not in _ESTIMATED
    if finding.segment == ALL or is_exact:
        return []
    share, segment = _percent(finding.segment_share, 1), shorten_name(finding.segment)
    return [f"It concerns {share} of the users in {segment}."]


def _write_what(finding: Finding, arms: str) -> str:
    detail = finding.detail
    kind = finding.kind
    if kind is FaultKind.SHARED_LIST:
        lists = detail["lists"]
        what = f"get one of {lists:.0f} lists from the {arms}"
        if lists == 1:
            what = f"all get the same list from the {arms}"
        return f"{what}: the most popular items" if detail["popular"] >= _POPULAR else what
    if kind is FaultKind.MISSING:
        return _write_missing(finding, arms)
    if kind is FaultKind.RESPELLED:
        return _write_respelled(finding, arms)
    if kind is FaultKind.REORDERED:
        items = "first three items" if detail["top"] else "items"
        return f"get the same {items} from the {arms}, but in another order"
    figures = {}
    if finding.kind is FaultKind.CUT_SHORT:
        figures = {"lists": "shorter lists", "items": "items"}
        if detail.get("duplicated", 0.0) >= _MOSTLY:
            figures = {"lists": "lists with duplicates", "items": "different items"}
    for name, value in detail.items():
        figures[name] = _percent(value, 1)
        if value > 1:
            figures[name] = f"{value:,.0f}"
    return _WHAT[kind].format(arms=arms, other=finding.arms[0].other, **figures)


def _write_missing(finding: Finding, arms: str) -> str:
    detail = finding.detail
    lists = "an empty list" if detail.get("empty", 0.0) >= _MOSTLY else "no list"
    missing = f"got {lists} from the {arms}"
    if "before" in detail:
        missing += f" ({_percent(detail['before'], 1)} before)"
    if finding.note is not None:
        missing += f": {shorten(finding.note, _LONGEST_NOTE, placeholder=' …').rstrip('.')}"
    return missing


def _write_respelled(finding: Finding, arms: str) -> str:
    if len(finding.arms) > 1:
        spellings = _write_spellings(finding, *finding.arms)
        return f"get items whose ids are spelled differently by {arms}{spellings}"
    spellings = _write_spellings(finding, "before", "now")
    return f"get items from the {arms} whose ids are spelled differently than before{spellings}"


def _write_spellings(finding: Finding, first: str, second: str) -> str:
    if finding.spelling is None or finding.spelling.examples is None:
        return ""
    one, other = map(_shorten_part, finding.spelling.examples)
    return f": {one} ({first}), {other} ({second})"


def shorten_name(name: str) -> str:
    """The segment's name, shortened and without unprintable characters."""
    return AND.join(_shorten_part(part) for part in name.split(AND, 1))


def _shorten_part(name: str) -> str:
    return shorten_to(" ".join(printable(name).split()), _LONGEST_NAME)


def _percent(amount: float, total: float) -> str:
    percent = 100 * amount / total
    # Small values get one decimal, since a whole number would be 0 or off by half of the value.
    decimals = 1 if 0.05 <= percent < 0.95 else 0  # noqa: PLR2004
    return f"{percent:.{decimals}f} %"


def _capitalize(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _join(sentences: Iterable[str]) -> str:
    """The first sentence, followed by each further sentence that still fits."""
    joined, *others = sentences
    for sentence in others:
        if len(joined) + len(sentence) < LONGEST_SENTENCE:
            joined = f"{joined} {sentence}"
    return joined


def write_alert_text(explanation: Explanation, metric: str, segment: str) -> str:
    """The explanation for an alert on this metric and segment, on one line of limited length.

    If another metric was explained, the text names that metric.
    """
    sentences = [*write_falls(explanation, segment), *_write_items(explanation)]
    if metric != explanation.metric:
        sentences.insert(0, f"Measured by {explanation.metric}:")
    return " ".join(sentences)


def write_falls(explanation: Explanation, segment: str) -> tuple[str, ...]:
    """Sentences on the drop of all users, on this segment's fall, and on ids that do not match.

    The sentence that has a cause comes first. A fall that is not known is left out.
    """
    fall = next((each for each in explanation.falls if each.segment == segment), None)
    sentence = explanation.sentence
    hints = _write_hints(explanation)
    if segment == ALL or fall is None:
        return (sentence, *hints)
    segment_sentence = write_fall(fall, explanation.drop)
    if explanation.finding:
        return (sentence, segment_sentence, *hints)
    return (segment_sentence, f"All users: {sentence[:1].lower()}{sentence[1:]}", *hints)


def _write_hints(explanation: Explanation) -> list[str]:
    """Sentences on ids that do not match. Leaves out what the finding reports already."""
    finding = explanation.finding
    mismatches = explanation.id_mismatches
    if finding is not None and finding.kind is FaultKind.RESPELLED:
        mismatches = tuple(mismatch for mismatch in mismatches if not mismatch.is_spelling)
    return [f"{_capitalize(write_mismatch(mismatch))}." for mismatch in mismatches]


def _write_items(explanation: Explanation) -> list[str]:
    pieces = []
    for word, items in (("more", explanation.gained), ("less", explanation.lost)):
        if items:
            names = [shorten_name(item.title or item.item) for item in items[:MOST_ITEMS]]
            pieces.append(f"{word}: {', '.join(names)}")
    if not pieces:
        return []
    where = ""
    if explanation.segment != ALL:
        where = f" in {shorten_name(explanation.segment)}"
    return [f"Items shown{where} {'; '.join(pieces)}."]
