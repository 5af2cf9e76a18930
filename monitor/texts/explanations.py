"""Writes an explanation and the text of an alert from figures. Each is one line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from textwrap import shorten

from monitor.model.explanation import (
    DropPart,
    Explanation,
    FaultKind,
    Finding,
    MeanDrop,
    PartMeans,
    SegmentFall,
)
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL, Arm
from monitor.model.run_reasons import IdMismatch
from monitor.model.segments import AND
from monitor.model.statistics import parse_derived
from monitor.texts.id_mismatches import write_mismatch, write_setting
from monitor.texts.wording import count_of, printable, shorten_to, write_percent

LONGEST_EXPLANATION = 250
"""An explanation's text has at most this many characters."""

# If a part is larger than the drop times this factor, an opposite part cancelled the rest of it.
# Then all parts are written as amounts, because shares would exceed 100 %.
_CANCELLED = 1.15

_LONGEST_NAME = 40
_LONGEST_NOTE = 140
_LEAST_AMOUNT = 0.00005
_LEAST_SHOWN_SHARE = 0.005
PART_WORDS: Mapping[DropPart, str] = {
    DropPart.MEMBERSHIP: "items replaced",
    DropPart.ORDER: "items moved",
    DropPart.LENGTH: "lists of other lengths",
    DropPart.COMPOSITION: "different users asked",
}
_WHAT: Mapping[FaultKind, str] = {
    FaultKind.IDENTICAL: "get the {other}'s list from the {arms}: both lists are identical",
    FaultKind.INTERLEAVED: (
        "get lists from the {arms} that are mixed with the {other}'s lists: the {other}'s first "
        "items are near the top"
    ),
    FaultKind.ITEMS_GONE: (
        "had items that nobody gets from the {arms} any more: {items}, {exposure} of what was shown"
    ),
    FaultKind.ITEMS_RISEN: (
        "get {items} from the {arms} that many more lists have than before: {now} of the lists "
        "instead of {before}"
    ),
    FaultKind.ITEMS_FALLEN: (
        "had {items} from the {arms} that far fewer lists have than before: {now} of the lists "
        "instead of {before}"
    ),
    FaultKind.ITEMS_NEW: (
        "get items from the {arms} that hardly anybody got before: {items}, {exposure} of what is "
        "shown"
    ),
    FaultKind.MIXED_UP: "get lists from the {arms} that belong to other users",
    FaultKind.NOISE: "get lists from the {arms} that are unrelated to these users' earlier lists",
}
"""What happened to the lists of some users. `_WRITERS` has a function for each other kind."""

_MOSTLY = 0.5
"""If at least this share of the lists is empty (or has duplicates), the text says so."""

# Many users may get the same list. The text says that it has "the most popular items" if at least
# this share of its items were among the items in most lists before.
_POPULAR = 0.5

_WITHOUT_PAST = "No earlier lists to compare with."

MOST_NAMED_ITEMS = 3
"""An alert's text names at most this many items that are shown more, and as many shown less."""


def write_finding_alone(finding: Finding) -> str:
    """Say what happened, to which users and in which arm. The drop is not mentioned."""
    return join_sentences([f"{write_cause(finding)}.", *_write_share(finding)])


def write_cause(finding: Finding) -> str:
    """Say what happened, to which users and in which arm. The clause has no full stop."""
    return f"{_write_who(finding)} {_write_what(finding, ' and '.join(finding.arms))}"


def write_finding(
    finding: Finding,
    drop: MeanDrop | None,
    *,
    also: Finding | None = None,
    is_other_unchanged: bool | None = None,
) -> str:
    """Say what happened, to which users, in which arm, and how much of the drop this explains.

    The most important sentence comes first. Sentences that do not fit are left out.

    ``drop`` is None if there are no earlier lists. ``also`` is another fault, of other users.
    ``is_other_unchanged`` is about the other arm: it did not change (True), changed no more than
    usual (False), or neither is known (None).
    """
    sentences = [f"{write_cause(finding)}.", *_write_share(finding), *write_also(also)]
    if finding.spelling is not None and finding.spelling.forms:
        sentences.append(_write_spelling_advice(finding.arms, finding.spelling))
    if finding.kind.facts.is_similarity:
        # An experiment that is not applied gives both arms the same lists.
        sentences.append("Is the experiment applied?")
    subject = "This" if also is None else "The first fault"
    sentences.append(_write_effect(finding, drop, subject))
    if is_other_unchanged is not None:
        (other,) = set(Arm) - set(finding.arms)
        change = "did not change" if is_other_unchanged else "changed no more than usual"
        sentences.append(f"The {other} {change}.")
    return join_sentences(filter(None, sentences))


def write_also(also: Finding | None) -> list[str]:
    """Say that there is another fault, of other users. Empty without one."""
    return [] if also is None else [f"Another fault: {write_cause(also)}."]


def _write_effect(finding: Finding, drop: MeanDrop | None, subject: str) -> str:
    """Say how the similarity of all users changed. The finding is the ``subject``.

    Empty if there is a clear drop, but nobody knows how much of it the finding explains.
    """
    if drop is None:
        return f"({_WITHOUT_PAST})"
    if finding.explained is not None:
        return f"{subject} explains {_write_explained(finding.explained)} of the drop."
    if drop.is_rise:
        return f"The similarity of all users rose by {-drop.amount:.4f}."
    if drop.is_clear:
        return ""
    verb = "hardly fell" if drop.amount > 0 else "did not fall"
    return f"The similarity of all users {verb}."


def write_recalled(sentence: str, slot: datetime) -> str:
    """Repeat an earlier run's explanation, and name that run."""
    return f"Since the run of {format_instant(slot)}: {sentence}"


def _write_explained(share: float) -> str:
    if share >= 1 - _LEAST_SHOWN_SHARE:
        return "all"
    if share < _LEAST_SHOWN_SHARE:
        return "none"
    return write_percent(share)


def write_unchanged(slot: datetime | None = None) -> str:
    """Say that no lists changed since the run of this slot, or since the run that a title names."""
    since = "" if slot is None else f" since the run of {format_instant(slot)}"
    return f"Neither arm's lists changed{since}."


def write_drop(drop: MeanDrop) -> str:
    """Say in which segment the mean fell, and by which parts. Used if no fault was found."""
    amount = f"{abs(drop.amount):.4f}"
    where = []
    if drop.main_segment is not None:
        where = [write_fall(drop.main_segment, drop.amount)]
    if drop.is_rise:
        return join_sentences([f"Similarity rose by {amount}.", *where])
    if not drop.is_clear and drop.amount > 0:
        return join_sentences([f"No clear drop: similarity fell by {amount}.", *where])
    if not drop.is_clear:
        return join_sentences([f"No drop: similarity rose by {amount}.", *where])
    fell = f"Similarity fell by {amount}{_write_parts(drop.parts, drop.amount)}."
    largest = max(DropPart, key=drop.parts.__getitem__)
    if largest is DropPart.COMPOSITION:
        # The cause is clear: other users were asked. So "No clear cause" is left out.
        return join_sentences([*where, fell])
    return join_sentences(["No clear cause.", *where, fell])


def write_no_cause(explanation: Explanation) -> str:
    """Say that a fault was found that is no clear cause, and by which parts the mean fell."""
    if explanation.is_unpaired:
        return "No clear cause."
    parts = {cause.part: cause.amount for cause in explanation.causes}
    amount = f"{explanation.drop:.4f}{_write_parts(parts, explanation.drop)}"
    return f"No clear cause. Similarity fell by {amount}."


def write_distance(means: PartMeans) -> str:
    """Say how far the arms' lists are from identical lists, and by which parts.

    Used if there are no earlier lists.
    """
    parts = {
        DropPart.MEMBERSHIP: means.membership,
        DropPart.ORDER: means.order,
        DropPart.LENGTH: means.length,
    }
    return (
        f"{_WITHOUT_PAST} The distance from identical lists is {means.total:.4f}"
        f"{_write_parts(parts, means.total)}."
    )


def write_fall(fall: SegmentFall, drop: float) -> str:
    """Say how a segment's mean changed, and how much of the ``drop`` of all users it explains."""
    name = shorten_name(fall.segment)
    by_changed_lists = fall.by_changed_lists
    share = fall.share_before
    if not (share and by_changed_lists):
        return f"In {name} there is no fall to explain."
    amount = f"{abs(by_changed_lists) / share:.4f}"
    if by_changed_lists < 0:
        return f"In {name} similarity rose by {amount}."
    of_all = ""
    if 0 < fall.total <= _CANCELLED * drop:
        of_all = f", {write_percent(min(fall.total, drop) / drop)} of the drop of all users"
    per_user = {part: part_sum / share for part, part_sum in fall.parts.items()}
    parts = _write_parts(per_user, fall.total / share)
    return f"In {name} similarity fell by {amount}{of_all}{parts}."


def _write_parts(parts: Mapping[DropPart, float], total: float) -> str:
    """Write a colon and the parts, the largest first.

    Parts are written as shares of the total. If one part cancels another, parts are written as
    amounts.
    """
    is_shared = 0 < max(parts.values()) <= _CANCELLED * total
    shown = []
    for part, amount in sorted(parts.items(), key=itemgetter(1), reverse=True):
        if is_shared and amount >= max(_LEAST_AMOUNT, _LEAST_SHOWN_SHARE * total):
            shown.append(f"{PART_WORDS[part]} {write_percent(min(amount, total) / total)}")
        elif not is_shared and abs(amount) >= _LEAST_AMOUNT:
            shown.append(f"{PART_WORDS[part]} {amount:.4f}")
    return f": {', '.join(shown)}" if shown else ""


def _write_who(finding: Finding) -> str:
    is_estimated = finding.is_estimated
    who = f"{finding.users:,} of {finding.compared:,} users ({write_percent(finding.share)})"
    if is_estimated:
        who = f"About {who}"
    if finding.segment == ALL:
        return who
    segment = shorten_name(finding.segment)
    if finding.is_exact and not is_estimated:
        return f"{who}, exactly the users in {segment},"
    return f"{who}, most of them in {segment},"


def _write_share(finding: Finding) -> list[str]:
    """Write which share of the segment's users has the fault, if the first sentence does not."""
    is_exact = finding.is_exact and not finding.is_estimated
    if finding.segment == ALL or is_exact:
        return []
    share = write_percent(finding.segment_share)
    segment = shorten_name(finding.segment)
    return [f"It concerns {share} of the users in {segment}."]


def _write_what(finding: Finding, arms: str) -> str:
    """Say what happened to the lists. The text follows the number of users, as their predicate.

    For example: ``get lists from the candidate that belong to other users``.
    """
    kind = finding.kind
    if kind in _WRITERS:
        return _WRITERS[kind](finding, arms)
    figures = {name: write_percent(value) for name, value in finding.detail.items()}
    if kind.facts.counts_items:
        figures["items"] = count_of(round(finding.detail["items"]), "item")
    return _WHAT[kind].format(arms=arms, other=finding.arms[0].other, **figures)


def has_duplicates(finding: Finding) -> bool:
    """Return whether lists are short mostly because items in them are repeated."""
    is_short = finding.kind is FaultKind.CUT_SHORT
    return is_short and finding.detail.get("duplicated", 0.0) >= _MOSTLY


def _write_cut_short(finding: Finding, arms: str) -> str:
    lists = "shorter lists"
    item = "item"
    if has_duplicates(finding):
        lists = "lists with duplicates"
        item = "different item"
    items = count_of(round(finding.detail["now"]), item)
    return f"get {lists} from the {arms}: {items} instead of {finding.detail['before']:,.0f}"


def _write_alike(finding: Finding, arms: str) -> str:
    alike = "nearly"
    if "is_more_alike" in finding.detail:
        alike = "much more like"
    return f"get lists from the {arms} that are {alike} the {finding.arms[0].other}'s"


def _write_unchanged_lists(finding: Finding, arms: str) -> str:
    earlier = "in the last run"
    if "of_before" in finding.detail:
        earlier = "before the test"
    return f"get the same list from the {arms} as {earlier}, while other lists changed"


def _write_reordered(finding: Finding, arms: str) -> str:
    items = "items"
    if finding.detail["top"]:
        items = "first three items"
    return f"get the same {items} from the {arms}, but in another order"


def _write_replaced(finding: Finding, arms: str) -> str:
    if "mixed_in" in finding.detail:
        return (
            f"get new items from the {arms} between the former ones, which are about twice as far "
            "down"
        )
    more = "many more"
    if "is_general" in finding.detail:
        more = "more"
    return f"get {more} new items from the {arms} than usual"


def _write_shared(finding: Finding, arms: str) -> str:
    lists = finding.detail["lists"]
    what = f"get one of {lists:.0f} lists from the {arms}"
    if lists == 1:
        what = f"get one and the same list from the {arms}"
    if finding.detail["popular"] >= _POPULAR:
        return f"{what}: the most popular items"
    return what


def _write_shifted(finding: Finding, arms: str) -> str:
    detail = finding.detail
    places = round(detail["places"])
    moved = f"the others stand {count_of(places, 'place')}"
    if detail["up"]:
        first = "first item" if places == 1 else f"first {places} items"
        return f"lack their {first} from the {arms}: {moved} higher"
    return f"get {count_of(places, 'new item')} in front from the {arms}: {moved} lower"


def _write_first_item(finding: Finding, arms: str) -> str:
    detail = finding.detail
    items = round(detail["items"])
    item = "an item" if items == 1 else f"one of {items} items"
    have, more = "have", "many more"
    if detail["now"] < detail["before"]:
        have, more = "had", "far fewer"
    now, before = write_percent(detail["now"]), write_percent(detail["before"])
    figures = f"{now} of the lists instead of {before}"
    if items > 1:
        figures = f"one of them in {figures}"
    return (
        f"{have} {item} in first place from the {arms}, which {more} lists have there than before: "
        f"{figures}"
    )


def _write_missing(finding: Finding, arms: str) -> str:
    detail = finding.detail
    lists = "an empty list" if detail.get("empty", 0.0) >= _MOSTLY else "no list"
    missing = f"got {lists} from the {arms}"
    if "before" in detail:
        missing += f" ({write_percent(detail['before'])} before)"
    if finding.note is not None:
        missing += f": {shorten(finding.note, _LONGEST_NOTE, placeholder=' …').rstrip('.')}"
    return missing


def _write_respelled(finding: Finding, arms: str) -> str:
    if len(finding.arms) > 1:
        spellings = _write_spellings(finding, *finding.arms)
        return f"get items whose ids are spelled differently by {arms}{spellings}"
    spellings = _write_spellings(finding, "before", "now")
    return f"get items from the {arms} whose ids are spelled differently than before{spellings}"


def _write_spelling_advice(arms: Sequence[Arm], spelling: IdMismatch) -> str:
    setting = write_setting(spelling)
    if len(arms) > 1:
        return f"{_capitalize(setting)}."
    return f"If the new ids are wanted, {setting}."


def _write_spellings(finding: Finding, first: str, second: str) -> str:
    if finding.spelling is None or finding.spelling.examples is None:
        return ""
    one, other = map(_shorten_part, finding.spelling.examples)
    return f": {one} ({first}), {other} ({second})"


_WRITERS: Mapping[FaultKind, Callable[[Finding, str], str]] = {
    FaultKind.SHARED_LIST: _write_shared,
    FaultKind.MISSING: _write_missing,
    FaultKind.CUT_SHORT: _write_cut_short,
    FaultKind.ALIKE: _write_alike,
    FaultKind.UNCHANGED: _write_unchanged_lists,
    FaultKind.REORDERED: _write_reordered,
    FaultKind.REPLACED: _write_replaced,
    FaultKind.SHIFTED: _write_shifted,
    FaultKind.FIRST_ITEM: _write_first_item,
    FaultKind.RESPELLED: _write_respelled,
}


def shorten_name(name: str) -> str:
    """Return the segment's name, shortened and without unprintable characters."""
    return AND.join(_shorten_part(part) for part in name.split(AND, 1))


def _shorten_part(name: str) -> str:
    return shorten_to(" ".join(printable(name).split()), _LONGEST_NAME)


def _capitalize(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def join_sentences(sentences: Iterable[str]) -> str:
    """Return the first sentence, followed by each further sentence that still fits."""
    joined, *others = sentences
    for sentence in others:
        if len(joined) + len(sentence) < LONGEST_EXPLANATION:
            joined = f"{joined} {sentence}"
    return joined


def write_alert_text(explanation: Explanation, metric: str, segment: str) -> str:
    """Write the explanation for an alert on this metric and segment, on one line.

    If another metric was explained, the text names that metric.
    """
    sentences = [*write_falls(explanation, segment), *_write_items(explanation)]
    _, explained = parse_derived(explanation.metric)
    if metric != explained:
        sentences.insert(0, f"Measured by {explained}:")
    return " ".join(sentences)


def write_falls(explanation: Explanation, segment: str) -> tuple[str, ...]:
    """Write about the drop of all users, this segment's fall, and ids that do not match.

    The sentence that names a cause comes first. The segment's fall is left out if it is unknown.
    """
    fall = next((fall for fall in explanation.falls if fall.segment == segment), None)
    sentence = explanation.sentence
    hints = _write_hints(explanation)
    if segment == ALL or fall is None:
        return (sentence, *hints)
    segment_sentence = write_fall(fall, explanation.drop)
    if explanation.finding:
        return (sentence, segment_sentence, *hints)
    return (segment_sentence, f"All users: {sentence[:1].lower()}{sentence[1:]}", *hints)


def _write_hints(explanation: Explanation) -> list[str]:
    """Write about ids that do not match. Leaves out what the finding already reports."""
    finding = explanation.finding
    mismatches = explanation.id_mismatches
    if finding is not None and finding.kind is FaultKind.RESPELLED:
        mismatches = tuple(mismatch for mismatch in mismatches if not mismatch.is_only_spelling)
    return [f"{_capitalize(write_mismatch(mismatch))}." for mismatch in mismatches]


def _write_items(explanation: Explanation) -> list[str]:
    pieces = []
    for word, items in (("more", explanation.gained), ("less", explanation.lost)):
        if items:
            names = [shorten_name(item.title or item.item) for item in items[:MOST_NAMED_ITEMS]]
            pieces.append(f"{word}: {', '.join(names)}")
    if not pieces:
        return []
    where = ""
    if explanation.segment != ALL:
        where = f" in {shorten_name(explanation.segment)}"
    if explanation.has_items_by_arm:
        return [f"Items that the candidate shows{where} {'; '.join(pieces)}."]
    return [f"Items shown{where} {'; '.join(pieces)}."]
