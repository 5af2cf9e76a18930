"""The content of a message as short bounded text that receivers render: title, changes, causes, examples, links, commands."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from monitor.alerts.incidents import find_leads
from monitor.alerts.verdicts import format_value
from monitor.attribution.sentences import PART_WORDS, write_falls
from monitor.model.alerts import Transition
from monitor.model.explanation import ExampleLists, Explanation, ExposedItem, FaultKind
from monitor.model.instants import format_instant
from monitor.model.notifications import Briefing, Message, MessageStatus
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import RuleKind, Severity
from monitor.presentation import explanation_title, side_by_side
from monitor.receivers.message.safe_text import bounded_line, cause_of, clean, commands_of, links_of
from monitor.texts.root_causes import write_known_cause

MAX_CHANGES = 5
"""Changes that are reported in full; the rest is counted."""
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
_NAMED = 4
_LONGEST_NAME = 60
_LONGEST_TITLE = 500
_LONGEST_REASON = 800
_LONGEST_FACT = 300
_LOUDEST = tuple(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """A user's lists: rank, the baseline's item and the candidate's, marked as gone, new, or with the rank they were at."""

    user: str
    rows: tuple[
        tuple[str, str, str], ...
    ]  # empty where a list has ended; a last one without a rank counts what is not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeContent:
    """One start, acknowledgement or end: a heading, its reason in a sentence, and facts as (name, value)."""

    heading: str
    reason: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent:
    """What a message reports of an incident: each text one bounded line that prints, a mark after right-to-left, no markup."""

    status: MessageStatus
    severity: Severity
    title: str  # at most 500 characters
    changes: tuple[
        ChangeContent, ...
    ]  # the first of those that stand for all, in a repetition one that still fires
    why: tuple[str, ...]  # sentences
    shares: tuple[tuple[str, str], ...]  # parts of the drop, and how much of it each is
    entered: tuple[str, ...]  # items whose place in lists grew most
    left: tuple[str, ...]  # items whose place shrank most
    examples: tuple[SideBySide, ...]
    links: tuple[tuple[str, str], ...]  # name and URL
    commands: tuple[str, ...]  # to be pasted in a shell
    is_watched: bool = True  # False where it ended because nothing watches it any more
    more: tuple[
        str, ...
    ] = ()  # sentences on the others, on what goes on firing, and on why it pages again


def content_of(message: Message, external_url: str) -> MessageContent:
    """What every channel shows of this message, bounded whatever its size, with the explanation of its weightiest change."""
    # The changes that stand for all, in a repetition among the firings that last, the weightiest
    # first.
    leads = sorted(find_leads(message.changes or message.firing), key=weight_of)
    explained = next((change for change in leads if change.explanation is not None), None)
    shown = leads[: 1 if message.is_repetition else MAX_CHANGES]
    told = message.briefing or Briefing()
    briefing = (
        told
        if explained is not None and _is_about_lists(explained, told.explanation)
        else Briefing()
    )
    explanation = briefing.explanation
    return MessageContent(
        status=message.status,
        severity=message.severity,
        title=title_of(message, leads),
        changes=tuple(change_content(change, message, shown[0]) for change in shown),
        is_watched=is_watched(message),
        more=further_changes(message, shown),
        why=(
            *(
                ()
                if explained is None or message.is_repetition
                else why_sentences(explained, explanation)
            ),
            *(known_cause(message, leads) if explained is None else ()),
            # The explanation that a change itself has ends with them.
            *(
                bounded_line(line, _LONGEST_SENTENCE)
                for line in told.models
                if explained is None or explanation is not None
            ),
        ),
        shares=() if explanation is None else cause_shares(explanation),
        entered=() if explanation is None else item_lines(explanation.gained, explanation.arm),
        left=() if explanation is None else item_lines(explanation.lost, explanation.arm),
        examples=example_lists(briefing),
        links=links_of(leads[0], external_url),
        commands=commands_of(leads[0]),
    )


def title_of(message: Message, leads: Sequence[Transition]) -> str:
    """``SimilarityLow firing on home-feed (country=UK): mean of rbo is 0.2 over 74 users, below 0.3; 3 resolved``."""
    verb = verb_of(leads[0], is_repetition=message.is_repetition)
    lead = [
        change for change in leads if verb_of(change, is_repetition=message.is_repetition) == verb
    ]
    where = "" if (extent := _extent(lead)) == "all users" else f" ({extent})"
    line = f"{_alerts(lead)} {verb} on {clean(message.comparison, _LONGEST_NAME)}{where}"
    if message.is_repetition:
        line = f"{line} since {format_instant(min(start.since for start in message.firing))}"
        before = dict.fromkeys(
            start.alert
            for start in message.first
            if start.alert not in {each.alert for each in leads}
        )
        line += f", after {clean(', '.join(before), _LONGEST_NAME)}" if before else ""
    line += f": {cause_of(leads[0])}" if leads[0].is_start else ""
    ended, lasting = len(message.ends), len(still_firing(message))
    tail = [f"{ended:,} resolved"] if ended and not lead[0].is_end else []
    tail += [f"{lasting:,} still firing"] if lasting and lead[0].is_end else []
    return bounded_line("; ".join(["Worse: " * bool(message.worse) + line, *tail]), _LONGEST_TITLE)


def change_content(change: Transition, message: Message, first: Transition) -> ChangeContent:
    """One change in full, behind the ``first`` one.

    Of a repetition only which run it is about, since all has been told.
    """
    verb = verb_of(change, is_repetition=message.is_repetition)
    segment = "all users" if change.segment == ALL else clean(change.segment, _LONGEST_FACT // 2)
    where = "" if change.segment == ALL else f" in {clean(change.segment, _LONGEST_NAME)}"
    facts = [("segment", segment), *(() if change.is_acknowledgement else _figures(change))]
    facts.append(
        (
            "in breach since" if change.is_start else "had been firing since",
            format_instant(change.since),
        )
    )
    facts.append(
        ("run", format_instant(change.slot))
        if change.has_run
        else ("at", format_instant(change.at))
    )
    is_same = (
        change is not first and change.reason.partition("; ")[0] == first.reason.partition("; ")[0]
    )
    reason = "for the same reason" if is_same else change.reason
    if message.is_repetition:
        reason, facts = "", facts[-1:]
    return ChangeContent(
        heading=bounded_line(f"{clean(change.alert, _LONGEST_NAME)} {verb}{where}", _LONGEST_TITLE),
        reason=bounded_line(reason, _LONGEST_REASON),
        facts=tuple(
            (bounded_line(name, _LONGEST_NAME * 2), bounded_line(value, _LONGEST_FACT))
            for name, value in facts
        ),
    )


def further_changes(message: Message, shown: Sequence[Transition]) -> tuple[str, ...]:
    """Sentences on why it pages again, on the changes that are not shown, and on what fires still beside them all."""
    named = {id(change) for change in shown}
    rest, lasting = (
        [each for each in message.changes or message.firing if id(each) not in named],
        still_firing(message),
    )
    lines = [f"Sent again because it became worse: {message.worse}."] if message.worse else []
    lines += [f"And {len(rest):,} more: {count_alerts(rest)}."] if rest else []
    lines += [f"Still firing: {count_alerts(lasting)}."] if lasting else []
    return tuple(bounded_line(line, _LONGEST_REASON) for line in lines)


def count_alerts(changes: Iterable[Transition]) -> str:
    """``SimilarityLow in 990 segments, MissingLists in country=UK and 2 other alerts``, the most frequent alerts first."""
    by_alert: dict[str, list[Transition]] = {}
    for change in changes:
        by_alert.setdefault(change.alert, []).append(change)
    ranked = sorted(by_alert.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    named = ", ".join(
        f"{clean(alert, _LONGEST_NAME)} in {_extent(found)}" for alert, found in ranked[:_NAMED]
    )
    others = len(ranked) - _NAMED
    return (
        named if others <= 0 else f"{named} and {others:,} other alert{'s' if others > 1 else ''}"
    )


def still_firing(message: Message) -> tuple[Transition, ...]:
    """What fires still and is not among the changes; of a repetition nothing."""
    named = {change.dedup_key for change in message.changes or message.firing}
    return tuple(start for start in message.firing if start.dedup_key not in named)


def is_watched(message: Message) -> bool:
    """Whether its alerts are watched still: False for the end of an incident whose last alerts were removed."""
    return message.status is not MessageStatus.RESOLVED or any(
        change.removed is None for change in message.changes
    )


def verb_of(change: Transition, *, is_repetition: bool) -> str:
    """What became of it."""
    if change.removed is not None:
        return "no longer watched"
    if change.is_end:
        return "ended as new normal" if change.is_new_normal else "resolved"
    if change.is_acknowledgement:
        return "acknowledged"
    return "still firing" if is_repetition else "firing"


def weight_of(change: Transition) -> tuple[object, ...]:
    """By what the changes of a message are told, weightiest first: starts, acknowledgements, ends; then farthest out."""
    kind = 0 if change.is_start else 1 if change.is_acknowledgement else 2
    loudness = _LOUDEST.index(change.severity)
    return (
        kind,
        not change.is_new_normal,
        change.segment != ALL,
        loudness,
        -_distance(change),
        change.alert,
        change.segment,
    )


def _distance(change: Transition) -> float:
    """How far beyond its threshold, in half widths of its interval where that is known, else in sizes of the threshold."""
    if change.value is None:
        return 0.0
    half = 0.0 if change.interval is None else (change.interval[1] - change.interval[0]) / 2
    return abs(change.value - change.threshold) / (half or abs(change.threshold) or 1.0)


def _figures(change: Transition) -> list[tuple[str, str]]:
    if (
        change.value is None or change.kind is RuleKind.COVERAGE
    ):  # of how many users the reason says already
        return []
    is_standstill = change.kind is RuleKind.STANDSTILL
    measured = (
        f"changes that the {change.statistic} missed"
        if is_standstill
        else f"{change.statistic} of {change.metric}"
    )
    shown = format_value(change.value, change.threshold)
    interval = (
        ""
        if change.interval is None
        else " (95 % interval {:.3g} to {:.3g})".format(*change.interval)
    )
    facts = [
        (measured, f"{shown}{interval}"),
        ("users", f"{change.users:,}"),
        ("threshold", f"{change.direction} {format_value(change.threshold, float(shown))}"),
    ]
    return facts if change.normal is None else [*facts, ("normal before", f"{change.normal:.3g}")]


def _alerts(changes: Sequence[Transition]) -> str:
    names = list(dict.fromkeys(change.alert for change in changes))
    others = len(names) - 1
    first = clean(names[0], _LONGEST_NAME)
    return first if not others else f"{first} and {others:,} other alert{'s' if others > 1 else ''}"


def _extent(changes: Sequence[Transition]) -> str:
    """``all users and 990 segments``."""
    segments = list(dict.fromkeys(change.segment for change in changes if change.segment != ALL))
    named = (
        clean(segments[0], _LONGEST_NAME) if len(segments) == 1 else f"{len(segments):,} segments"
    )
    everybody = ["all users"] if any(change.segment == ALL for change in changes) else []
    return " and ".join([*everybody, *([named] if segments else [])])


def why_sentences(speaker: Transition, explanation: Explanation | None) -> tuple[str, ...]:
    """Sentences on why this change came about.

    Without the run's explanation the explanation that the change itself has.
    """
    if explanation is None:
        return (bounded_line(speaker.explanation or "", 3 * _LONGEST_SENTENCE),)
    first, *further = write_falls(explanation, speaker.segment)
    head = "" if speaker.metric == explanation.metric else f"{explanation_title(explanation)}: "
    lines = [f"{head}{first}", *further, *_item_counts(explanation)]
    return tuple(bounded_line(line, _LONGEST_SENTENCE) for line in lines)


def _is_about_lists(change: Transition, explanation: Explanation | None) -> bool:
    """Whether lists, items and the drop explain the change: users without a list have none."""
    finding = None if explanation is None else explanation.finding
    return (
        change.kind is RuleKind.SIMILARITY
        or finding is None
        or finding.kind is not FaultKind.MISSING
    )


def known_cause(message: Message, leads: Sequence[Transition]) -> tuple[str, ...]:
    """What the newest run of the incident found out, where time alone made an alert begin: no run explains that one."""
    runs = [start for start in message.firing if start.has_run]
    if not runs or not leads[0].is_start or leads[0].has_run:
        return ()
    newest = max(start.slot for start in runs)
    causes = [start.explanation for start in runs if start.slot == newest and start.explanation]
    return tuple(
        bounded_line(write_known_cause(newest, cause), 3 * _LONGEST_SENTENCE)
        for cause in causes[:1]
    )


def cause_shares(explanation: Explanation) -> tuple[tuple[str, str], ...]:
    """Each part of the drop and its share of it.

    Amounts where parts cancel out. A rise has none.
    """
    drop, causes = explanation.drop, explanation.causes
    if drop < 0:
        return ()
    # Parts that cancel out leave a small drop, shares of which would mislead.
    is_shared = (
        drop > 0 and max((abs(cause.amount) for cause in causes), default=0.0) <= _CANCELLED * drop
    )
    shown = (
        (each.part, _percent(each.amount / drop) if is_shared else f"{each.amount:+.4f}")
        for each in causes
    )
    return tuple(
        (PART_WORDS[part], text) for part, text in shown if text.lstrip("+-") not in _NOTHING
    )


def item_lines(items: Sequence[ExposedItem], arm: Arm | None) -> tuple[str, ...]:
    """``Red shoes (sku-1): in 3 % of candidate lists before, 61 % now``, or without an arm in baseline and candidate lists."""
    then, now = (
        (" of baseline lists", " of candidate lists")
        if arm is None
        else (f" of {arm} lists before", " now")
    )
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
    titles = {each.item: each.title for each in known if each.title} | dict(
        explanation.titles if explanation else {}
    )
    return tuple(
        SideBySide(user=bounded_line(each.user, _LONGEST_ITEM), rows=tuple(_rows(each, titles)))
        for each in examples[:MAX_EXAMPLES]
    )


def _item_counts(explanation: Explanation) -> list[str]:
    if not (explanation.entered or explanation.left):
        return []
    of = "" if explanation.segment == ALL else f" of {clean(explanation.segment, _LONGEST_ITEM)}"
    entered, left = (
        f"{count:,} item{'' if count == 1 else 's'}"
        for count in (explanation.entered, explanation.left)
    )
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
