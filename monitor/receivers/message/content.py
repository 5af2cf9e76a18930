"""Makes the content of a message: short texts that are the same for every receiver."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest

from monitor.alerts.incidents import reports_fault
from monitor.alerts.leading_changes import (
    find_first_bad_slot,
    find_first_step,
    sort_leads,
    weight_of,
)
from monitor.measures.presentation import explanation_title
from monitor.model.alerts import Transition
from monitor.model.explanation import (
    ExampleLists,
    Explanation,
    ExposedItem,
    FaultKind,
    Finding,
)
from monitor.model.immutable import immutable
from monitor.model.instants import format_second
from monitor.model.notifications import Briefing, Message, MessageStatus
from monitor.model.rankings import ALL, Arm, ranks_by_item
from monitor.model.rules import RuleKind, Severity
from monitor.model.statistics import DerivedMetric, parse_derived
from monitor.model.urgency import Impact, find_floor, find_impact
from monitor.receivers.message.identity import since_label
from monitor.receivers.message.safe_text import bounded_line, cause_of, clean, commands_of, links_of
from monitor.texts.actions import (
    NEW_LEVEL,
    WHOLE_POPULATION,
    WITHOUT_DATABASE,
    write_contacts,
    write_firing,
    write_frozen_since,
    write_over,
    write_stale_since,
    write_urgency,
)
from monitor.texts.explanations import PART_WORDS, write_cause, write_falls
from monitor.texts.root_causes import write_beginning, write_known_cause
from monitor.texts.unpaired import LIMIT_OF_SELF_GAPS
from monitor.texts.verdicts import format_value, name_series
from monitor.texts.wording import count_of, write_percent

MAX_CHANGES = 5
"""How many changes a message reports in full. It only counts further changes."""
MAX_ITEMS = 3
"""A message names at most this many items that gained places, and as many that lost places."""
MAX_EXAMPLES = 2
"""For how many users the lists are shown."""
MAX_RANKS = 10
"""How many rows of a list a message shows. It only counts further rows."""

_ITEMS_BY_ARM = ("Items that the candidate shows more", "Items that the baseline shows more")
_CLEAR_CHANGE = 0.25
"""An item is named only if its share changed by this part of the largest change or more."""
_LONGEST_SENTENCE = 400
_LONGEST_CAUSE = 3 * _LONGEST_SENTENCE
_LONGEST_ITEM = 60
_LONGEST_LINE = 160
_MOST_CANCELLED = 3.0
_LEAST_PART_OF_DROP = 0.005  # smaller parts of a drop are left out
_LEAST_AMOUNT = 0.00005  # the smallest amount that is not 0.0000
_ONLY_HERE = "only here"
_MOST_NAMED_ALERTS = 12
_MOST_NAMED_SEGMENTS = 3
_LONGEST_NAME = 60
_LONGEST_TITLE = 500
_LONGEST_REASON = 800
_LONGEST_FACT = 300


@immutable
class SideBySide:
    """The two lists of a user. Items are marked if they are in one list only.

    They are the lists of both arms. If each user is served by one arm only, they are the lists of
    before and now. Items of the second list are also marked with their rank in the first list if
    it differs.
    """

    user: str
    heads: tuple[str, str]  # what the two lists are
    # A row has the rank, the baseline's item and the candidate's item. If one list is shorter, its
    # items are empty. If a list has more items, a last row without a rank says how many.
    rows: tuple[tuple[str, str, str], ...]


@immutable
class ChangeContent:
    """The content of one change: a start, an acknowledgement or an end."""

    heading: str
    reason: str  # a sentence
    facts: tuple[tuple[str, str], ...]  # name and value


@immutable
class MessageContent:
    """What a message reports about an incident.

    Each text is one printable line of limited length, without markup. After right-to-left text an
    invisible mark restores the direction.
    """

    status: MessageStatus
    severity: Severity
    has_rules: bool  # False if the rules of all its alerts were removed
    is_urgent: bool  # whether somebody has to be called at once
    title: str  # at most 500 characters
    # Sentences: for whom, since when, whether it is still going on, how urgent it is, what to do
    situation: tuple[str, ...]
    # The most important changes. A repetition has one: an alert that is still firing.
    changes: tuple[ChangeContent, ...]
    # Sentences on why the message is sent again, on further changes, and on alerts that are still
    # firing.
    more: tuple[str, ...]
    why: tuple[str, ...]  # sentences
    links: tuple[tuple[str, str], ...]  # name and URL
    commands: tuple[str, ...]  # commands for a shell
    examples: tuple[SideBySide, ...]
    shares: tuple[tuple[str, str], ...] = ()  # parts of the drop, and the share of each part
    entered: tuple[str, ...] = ()  # items that now have more places in lists than before
    left: tuple[str, ...] = ()  # items that now have fewer places in lists than before
    items_titles: tuple[str, str] = ("Items that gained most", "Items that lost most")

    @property
    def details(self) -> dict[str, tuple[str, ...]]:
        """Lines that explain the drop, by their title. A title without lines is left out."""
        details = {
            "What the drop is made of": tuple(f"{part}: {share}" for part, share in self.shares),
            self.items_titles[0]: self.entered,
            self.items_titles[1]: self.left,
        }
        return {title: lines for title, lines in details.items() if lines}


def content_of(message: Message, external_url: str) -> MessageContent:
    """Make the content of a message. It explains the most important change with an explanation."""
    run_briefing = message.briefing or Briefing()
    run_explanation = run_briefing.explanation
    finding = run_briefing.finding
    if message.is_repetition:
        firing = tuple(_move_to_run(start, run_briefing) for start in message.firing)
        message = replace(message, firing=firing)
    leads = sort_leads(message.changes or message.firing, finding)
    lead = leads[0]
    named = _lasting_fault(message, leads, finding)
    first = lead if named is None else replace(lead, runbook_url=named.runbook_url)
    shown = leads[: 1 if message.is_repetition else MAX_CHANGES]
    explained = next((change for change in leads if change.explanation is not None), None)
    briefing = Briefing()
    if message.starts and explained is not None and _is_about_lists(explained, run_explanation):
        briefing = run_briefing
    explanation = briefing.explanation
    impact = _find_impact(message)
    content = MessageContent(
        status=message.status,
        severity=message.severity,
        has_rules=has_rules(message),
        title=_write_title(message, leads, named),
        is_urgent=_is_urgent(message, impact),
        situation=_bound_lines(_write_situation(message, impact, lead, finding), _LONGEST_SENTENCE),
        changes=tuple(_change_content(change, message, shown[0]) for change in shown),
        more=_further_changes(message, shown),
        why=tuple(_write_why(message, run_briefing, explained, explanation)),
        links=links_of(first, external_url),
        commands=commands_of(
            lead,
            _segments_of(message),
            _alerts_of(message),
            message.interval,
            find_first_bad_slot(lead, message.starts or message.firing, finding),
        ),
        examples=_example_lists(briefing),
    )
    if explanation is None:
        return content
    changed_arm = _changed_arm(explanation)
    if explanation.has_items_by_arm:
        content = replace(content, items_titles=_ITEMS_BY_ARM)
    return replace(
        content,
        shares=_cause_shares(explanation),
        entered=item_lines(explanation.gained, changed_arm),
        left=item_lines(explanation.lost, changed_arm),
    )


def _move_to_run(start: Transition, briefing: Briefing) -> Transition:
    """Return the start with the run of the briefing, and with the cause that this run found."""
    if briefing.slot is None or not start.has_run:
        return start
    headline = start.headline
    if start.explanation is not None and briefing.finding is not None:
        headline = write_cause(briefing.finding)
    return replace(start, slot=briefing.slot, headline=headline)


def _write_why(
    message: Message,
    briefing: Briefing,
    explained: Transition | None,
    explanation: Explanation | None,
) -> Iterator[str]:
    """Yield sentences on the cause, on the change that is explained, and on new models.

    ``briefing`` is about the run. ``explanation`` is None if the run's does not fit the change.
    """
    if briefing.finding is None:
        yield from _known_cause(message, briefing)
    if explained is not None and not message.is_repetition:
        yield from _why_sentences(explained, explanation)
    # If only the change has an explanation, its text contains these lines already.
    if message.starts and (explained is None or explanation is not None):
        yield from _bound_lines(briefing.models, _LONGEST_SENTENCE)


def _write_title(message: Message, leads: Sequence[Transition], named: Transition | None) -> str:
    """Return a title such as ``SimilarityLow firing on home-feed (country=UK): ...; 3 resolved``.

    If ``named`` is not None, it begins with the name of this alert.
    """
    first = leads[0]
    verb = _write_verb(first, message)
    alike = [change for change in leads if _write_verb(change, message) == verb]
    if named is not None:
        alike.insert(0, named)
    title = f"{_name_alerts(alike)} {verb} on {clean(message.comparison, _LONGEST_NAME)}"
    extent = _write_extent(alike)
    if extent != "all users":
        title += f" ({extent})"
    if message.is_repetition:
        title += f" since {format_second(min(start.since for start in message.firing))}"
        leading = {change.alert for change in leads}
        before = dict.fromkeys(start.alert for start in message.first if start.alert not in leading)
        if before:
            title += f", after {clean(', '.join(before), _LONGEST_NAME)}"
    if first.is_start:
        title += f": {cause_of(first)}"
    if message.worse:
        title = f"Worse: {title}"
    ended = len(message.ends)
    lasting = len(_still_firing(message))
    if ended and not first.is_end:
        title += f"; {ended:,} resolved"
    if lasting and first.is_end:
        title += f"; {lasting:,} still firing"
    return bounded_line(title, _LONGEST_TITLE)


def _lasting_fault(
    message: Message, leads: Sequence[Transition], finding: Finding | None
) -> Transition | None:
    """Return an alert that began earlier, still fires, and reports the fault of the run.

    None if one of the leading changes reports the fault, or if nothing begins.
    """
    if finding is None or not leads[0].is_start or reports_fault(leads[0], finding):
        return None
    lasting = [start for start in _still_firing(message) if reports_fault(start, finding)]
    return min(lasting, key=weight_of, default=None)


def _is_urgent(message: Message, impact: Impact | None) -> bool:
    if message.status is not MessageStatus.FIRING or message.severity is Severity.INFO:
        return False
    return _is_worse(message) or (impact is not None and impact.is_urgent)


def _is_worse(message: Message) -> bool:
    """Whether the incident became worse. A repetition says so as long as nobody acknowledges it."""
    return message.worse is not None or (message.is_repetition and message.wake_ups > 1)


def _find_impact(message: Message) -> Impact | None:
    """The users that the firing alerts of the message affect. None if their number is unknown.

    It is also None if nothing fires, or if all firing alerts are acknowledged.
    """
    if message.status is not MessageStatus.FIRING:
        return None
    briefing = message.briefing or Briefing()
    return find_impact(message.firing, briefing.explanation, briefing.reasons)


def _write_situation(
    message: Message, impact: Impact | None, lead: Transition, finding: Finding | None
) -> Iterator[str]:
    """Yield whether alerts fire, since when, how urgent this is, whom to call, and what to do."""
    firing = message.firing
    ends = message.ends
    if firing:
        yield _write_since(message)
        if message.status is MessageStatus.FIRING:
            # The numbers of alerts are from when they began. Only the finding has new numbers.
            is_new = finding is not None or not message.is_repetition
            counted = impact if is_new or _is_urgent(message, impact) else None
            yield write_urgency(message.severity, counted, is_worse=_is_worse(message))
            contacts = write_contacts(lead.labels)
            start = lead if lead.is_start else sort_leads(firing, finding)[0]
            first_step = find_first_step(start, impact, finding)
            if contacts is not None:
                yield contacts
            if first_step is not None:
                yield first_step
        if any(start.kind is RuleKind.DATABASE for start in firing):
            yield WITHOUT_DATABASE
    elif has_rules(message):
        since = min(end.since for end in ends)
        yield write_over(_segments_in(ends), since, max(end.at for end in ends))
        if any(end.is_new_normal for end in ends):
            yield NEW_LEVEL


def _write_since(message: Message) -> str:
    """Write since when alerts fire, and what the earliest of them reports."""
    firing = message.firing
    earliest = min(firing, key=lambda start: start.since)
    if earliest.kind is RuleKind.STANDSTILL and earliest.value is not None:
        missed = round(earliest.value)
        both = earliest.is_about_both_arms
        return write_frozen_since(earliest.since, missed, is_about_both_arms=both)
    if earliest.is_stale_start:
        return write_stale_since(earliest.since)
    is_lasting = not message.starts or bool(_still_firing(message))
    return write_firing(_segments_in(firing), earliest.since, is_lasting=is_lasting)


def _segments_in(changes: Sequence[Transition]) -> str:
    """Return the segments of the changes. Empty if one change is about all users."""
    if any(change.segment == ALL for change in changes):
        return ""
    return _write_extent(changes)


def _segments_of(message: Message) -> set[str]:
    return {change.segment for change in (*message.changes, *message.firing)}


def _alerts_of(message: Message) -> set[str]:
    return {change.alert for change in (*message.changes, *message.firing)}


def _change_content(change: Transition, message: Message, first: Transition) -> ChangeContent:
    """Make the content of one change. A repetition has only the run.

    ``first`` is the first change of the message. If another change has the same reason, the reason
    is not repeated.
    """
    heading = f"{clean(change.alert, _LONGEST_NAME)} {_write_verb(change, message)}"
    segment = WHOLE_POPULATION
    if change.segment != ALL:
        segment = clean(change.segment, _LONGEST_FACT // 2)
        heading += f" in {clean(change.segment, _LONGEST_NAME)}"
    run = ("at", format_second(change.at))
    if change.has_run:
        run = ("run", format_second(change.slot))
    reason = change.reason
    if change is not first and reason == first.reason:
        reason = "for the same reason"
    facts = [run]
    if change.is_about_rankwatch:
        facts = [(since_label(change), format_second(change.since))]
    elif message.is_repetition:
        reason = ""
    else:
        since = (since_label(change), format_second(change.since))
        facts = [("segment", segment), *_write_figures(change), since, run]
    return ChangeContent(
        heading=bounded_line(heading, _LONGEST_TITLE),
        reason=bounded_line(reason, _LONGEST_REASON),
        facts=tuple(
            (bounded_line(name, _LONGEST_NAME * 2), bounded_line(value, _LONGEST_FACT))
            for name, value in facts
        ),
    )


def _further_changes(message: Message, shown: Sequence[Transition]) -> tuple[str, ...]:
    """Sentences on changes that are not shown, and on other alerts that are firing.

    If the incident became worse, the first sentence says why the message is sent again.
    """
    changes = message.changes or message.firing
    rest = [change for change in changes if not any(change is other for other in shown)]
    lasting = _still_firing(message)
    lines = []
    if message.worse:
        lines.append(f"Sent again because the incident became worse: {message.worse}.")
    if rest:
        lines.append(f"This message also reports: {_count_alerts(rest)}.")
    if lasting:
        lines.append(f"Still firing: {_count_alerts(lasting)}.")
    return _bound_lines(lines, _LONGEST_REASON)


def _bound_lines(lines: Iterable[str], limit: int) -> tuple[str, ...]:
    return tuple(bounded_line(line, limit) for line in lines)


def _count_alerts(changes: Iterable[Transition]) -> str:
    """Return a text such as ``SimilarityLow, TailDrop (all users); MissingLists (country=UK)``.

    Alerts of the same segments are named together. The alerts with the largest number of segments
    come first.
    """
    by_alert: dict[str, list[Transition]] = {}
    for change in changes:
        by_alert.setdefault(change.alert, []).append(change)
    ranked = sorted(by_alert.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    by_extent: dict[str, list[str]] = {}
    for alert, of_alert in ranked[:_MOST_NAMED_ALERTS]:
        by_extent.setdefault(_write_extent(of_alert), []).append(clean(alert, _LONGEST_NAME))
    named = "; ".join(f"{', '.join(names)} ({extent})" for extent, names in by_extent.items())
    return named + _and_others(len(ranked) - _MOST_NAMED_ALERTS)


def _and_others(alerts: int) -> str:
    return f" and {count_of(alerts, 'other alert')}" if alerts > 0 else ""


def _still_firing(message: Message) -> tuple[Transition, ...]:
    """Return the firing alerts that are not among the changes. There are none in a repetition."""
    named = {change.dedup_key for change in message.changes or message.firing}
    return tuple(start for start in message.firing if start.dedup_key not in named)


def has_rules(message: Message) -> bool:
    """Whether an alert of the message still has a rule. False if all their rules were removed."""
    if message.status is not MessageStatus.RESOLVED:
        return True
    return any(change.removed is None for change in message.changes)


def _write_verb(change: Transition, message: Message) -> str:
    """What happened to the alert, in words."""
    if change.removed is not None:
        return "no longer watched"
    if change.is_end:
        return "ended as new normal" if change.is_new_normal else "resolved"
    if change.is_acknowledgement:
        return "acknowledged"
    return "still firing" if message.is_repetition else "firing"


def _write_figures(change: Transition) -> list[tuple[str, str]]:
    """Return what was measured, the users and the limit, as pairs of a name and a text."""
    # An alert on coverage already gives the figures in its reason.
    if change.value is None or change.kind is RuleKind.COVERAGE or change.is_acknowledgement:
        return []
    measured = name_series(change.metric, change.statistic)
    users = ("users", f"{change.users:,}")
    if change.kind is RuleKind.SIMILARITY:
        derived, _ = parse_derived(change.metric)
        floor = find_floor(change)
        if derived is DerivedMetric.OVER_FLOOR:
            measured = f"distance beyond the noise ({measured})"
        if floor is not None:
            below = round(change.value * change.users)
            users = (f"users below {floor:.15g}", f"{below:,} of {change.users:,}")
    if change.kind is RuleKind.STANDSTILL:
        measured = f"changes that the {change.statistic} missed"
    if change.is_about_both_arms:
        measured = "runs in which neither arm changed"
    value = format_value(change.value, change.threshold)
    threshold = format_value(change.threshold, float(value))
    if change.interval is not None:
        value += " (95 % interval {:.3g} to {:.3g})".format(*change.interval)
    facts = [
        (measured, value),
        users,
        ("threshold", f"{change.direction} {threshold}"),
    ]
    if change.normal is not None:
        facts.append(("normal before", f"{change.normal:.3g}"))
    return facts


def _name_alerts(changes: Sequence[Transition]) -> str:
    names = list(dict.fromkeys(change.alert for change in changes))
    return clean(names[0], _LONGEST_NAME) + _and_others(len(names) - 1)


def _write_extent(changes: Sequence[Transition]) -> str:
    """The segments of the changes, such as ``all users and 2 segments: country=DE, country=UK``."""
    segments = dict.fromkeys(change.segment for change in changes)
    parts = []
    if ALL in segments:
        parts.append("all users")
        del segments[ALL]
    first_segments = sorted(islice(segments, _MOST_NAMED_SEGMENTS))
    names = [clean(segment, _LONGEST_NAME) for segment in first_segments]
    if len(segments) == 1:
        parts.append(names[0])
    elif segments:
        rest = len(segments) - len(names)
        others = f" and {rest:,} more" if rest else ""
        parts.append(f"{len(segments):,} segments: {', '.join(names)}{others}")
    return " and ".join(parts)


def _why_sentences(change: Transition, explanation: Explanation | None) -> tuple[str, ...]:
    """Sentences on the cause of the change.

    They come from the explanation of the run. If the run has none, they come from the change.
    """
    if explanation is None:
        return (bounded_line(change.explanation or "", 3 * _LONGEST_SENTENCE),)
    lines = [*write_falls(explanation, change.segment), *_item_counts(explanation)]
    if explanation.is_unpaired:
        lines.append(LIMIT_OF_SELF_GAPS)
    elif change.metric != explanation.metric:
        lines.append(f"{explanation_title(explanation)}.")
    return _bound_lines(lines, _LONGEST_SENTENCE)


def _is_about_lists(change: Transition, explanation: Explanation | None) -> bool:
    """Whether lists and items can explain the change. They cannot explain why lists are missing."""
    if change.kind is RuleKind.SIMILARITY or explanation is None or explanation.finding is None:
        return True
    return explanation.finding.kind is not FaultKind.MISSING


def _known_cause(message: Message, briefing: Briefing) -> Iterator[str]:
    """Yield a sentence on the cause that an earlier run of the incident found.

    If no run found a cause, the sentence says why the first alert of the incident began. The first
    message of an incident has no such sentence, and neither has a message without a start.
    """
    if not message.starts:
        return
    cause = briefing.known_cause
    if cause is not None:
        yield bounded_line(write_known_cause(cause.slot, cause.sentence), _LONGEST_CAUSE)
        return
    first = next(iter(message.first or message.firing), None)
    if first is not None and first.has_run and first not in message.starts:
        name = clean(first.alert, _LONGEST_NAME)
        line = write_beginning(name, first.slot, f"{cause_of(first)}.")
        yield bounded_line(line, _LONGEST_CAUSE)


def _cause_shares(explanation: Explanation) -> tuple[tuple[str, str], ...]:
    """Return the parts of the drop, each with its share of the drop.

    Empty for a rise, or if the finding explains no drop. If parts cancel each other out, amounts
    are given instead of shares.
    """
    drop = explanation.drop
    finding = explanation.finding
    if drop < 0 or (finding is not None and finding.explained is None):
        return ()
    # If large parts cancel each other out, the drop is small. Then shares of the drop would
    # mislead.
    largest = max((abs(cause.amount) for cause in explanation.causes), default=0.0)
    is_shared = drop > 0 and largest <= _MOST_CANCELLED * drop
    least = _LEAST_PART_OF_DROP * drop if is_shared else _LEAST_AMOUNT
    shares = []
    for cause in explanation.causes:
        if abs(cause.amount) < least:
            continue
        share = f"{abs(cause.amount):.4f}"
        if is_shared:
            share = write_percent(abs(cause.amount) / drop)
        if cause.amount < 0:
            share = f"reduced the drop by {share}"
        shares.append((PART_WORDS[cause.part], share))
    return tuple(shares)


def item_lines(items: Sequence[ExposedItem], arm: Arm | None) -> tuple[str, ...]:
    """Lines such as ``Red shoes (sku-1): in 3 % of candidate lists before, 61 % now``.

    Items whose share changed much less than the share of another item are left out, and items whose
    rounded shares are equal. If ``arm`` is None, a line compares the arms: the shares of baseline
    lists and of candidate lists.
    """
    before, now = " of baseline lists", " of candidate lists"
    if arm is not None:
        before, now = f" of {arm} lists before", " now"
    changes = [abs(item.share_after - item.share_before) for item in items]
    clear_change = _CLEAR_CHANGE * max(changes, default=0.0)
    clear = [item for item, change in zip(items, changes, strict=True) if change >= clear_change]
    lines = []
    for item in clear:
        share_before = write_percent(item.share_before)
        share_now = write_percent(item.share_after)
        if share_before != share_now:
            lines.append(f"{_name_item(item)}: in {share_before}{before}, {share_now}{now}")
    return _bound_lines(lines[:MAX_ITEMS], _LONGEST_LINE)


def _example_lists(briefing: Briefing) -> tuple[SideBySide, ...]:
    """Return the lists of at most two users, as examples."""
    explanation = briefing.explanation
    examples = briefing.examples
    titles: dict[str, str] = {}
    heads = ("baseline", "candidate")
    if explanation is not None and explanation.is_unpaired:
        heads = ("before", "now")
    if explanation is not None:
        examples = examples or explanation.examples
        for item in (*explanation.gained, *explanation.lost):
            if item.title:
                titles[item.item] = item.title
        titles |= explanation.titles
    lists = []
    for example in examples[:MAX_EXAMPLES]:
        user = bounded_line(example.user, _LONGEST_ITEM)
        rows = tuple(_side_by_side(example, titles))
        lists.append(SideBySide(user=user, heads=heads, rows=rows))
    return tuple(lists)


def _changed_arm(explanation: Explanation) -> Arm | None:
    """The arm whose items of before and now are compared. None if the items of both arms are."""
    return None if explanation.has_items_by_arm else explanation.arm


def _item_counts(explanation: Explanation) -> list[str]:
    if not (explanation.entered or explanation.left):
        return []
    where = ""
    if explanation.segment != ALL:
        where = f" in {clean(explanation.segment, _LONGEST_ITEM)}"
    arm = _changed_arm(explanation)
    if arm is None:
        counts = f"{explanation.left:,} of the baseline, {explanation.entered:,} of the candidate"
        return [f"Items in the lists of one arm only{where}: {counts}."]
    entered = count_of(explanation.entered, "item")
    left = count_of(explanation.left, "item")
    return [f"{entered} came into the {arm}'s lists{where}, and {left} disappeared from them."]


def _name_item(item: ExposedItem) -> str:
    item_id = clean(item.item, _LONGEST_ITEM // 2)
    return f"{clean(item.title, _LONGEST_ITEM)} ({item_id})" if item.title else item_id


def _side_by_side(
    example: ExampleLists, titles: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the rows: the rank, the baseline's item and the candidate's item, with their marks."""

    def show(item: str, mark: str) -> str:
        title = clean(titles.get(item, item), _LONGEST_ITEM)
        return bounded_line(f"{title} ({mark})" if mark else title, _LONGEST_ITEM + 20)

    def count_rest(items: Sequence[str]) -> str:
        return f"{len(items) - MAX_RANKS:,} more" if len(items) > MAX_RANKS else ""

    ranks = ranks_by_item(example.baseline, example.candidate)
    # The shorter list is filled with empty items, which get no mark.
    pairs = islice(zip_longest(example.baseline, example.candidate, fillvalue=""), MAX_RANKS)
    for rank, (baseline, candidate) in enumerate(pairs, start=1):
        baseline_mark = ""
        if baseline and ranks[baseline][1] is None:
            baseline_mark = _ONLY_HERE
        candidate_mark = ""
        if candidate:
            before, after = ranks[candidate]
            if before is None:
                candidate_mark = _ONLY_HERE
            elif before != after:
                candidate_mark = f"there: {before}"
        yield str(rank), show(baseline, baseline_mark), show(candidate, candidate_mark)
    rest = count_rest(example.baseline), count_rest(example.candidate)
    if any(rest):
        yield "", *rest
