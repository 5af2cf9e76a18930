"""Makes texts, links and commands that are short and safe, even if names in them are not."""

import hashlib
import unicodedata
from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import groupby
from urllib.parse import quote

from monitor.alerts.notification_policy import propose_matchers
from monitor.boundary.options import web_url_of
from monitor.model.alerts import Removed, Transition
from monitor.model.instants import format_instant
from monitor.model.rules import RuleKind
from monitor.texts import actions
from monitor.texts.wording import printable

MAX_LINE = 2000

LONGEST_LINK = 1500
"""The largest number of characters in a URL.

Slack and PagerDuty accept longer URLs, but mail programs break them.
"""
_LEFT_TO_RIGHT_MARK = "\u200e"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_LONGEST_NAME = 200
_LONGEST_NAMES = 500  # of all alerts and segments in one command
_LONGEST_CAUSE = 300


def page_url(transition: Transition, external_url: str) -> str:
    """Return the URL of the run's page on this daemon.

    For a change without a run, or on a condition, this is the URL of the comparison's page. If the
    comparison does not exist any more, it is the URL of the first page.
    """
    _, url = _page_link(transition, external_url)
    return url


def _page_link(transition: Transition, external_url: str) -> tuple[str, str]:
    """Return the name and the URL of the page that `page_url` describes."""
    if transition.removed is Removed.COMPARISON or transition.is_about_rankwatch:
        return "rankwatch", external_url
    page = f"{external_url.rstrip('/')}/c/{quote(clean(transition.comparison, 200), safe='')}"
    if transition.kind is RuleKind.CONDITION or not transition.has_run:
        return "comparison", page
    segment = quote(clean(transition.segment, 200), safe="")
    return "run", f"{page}/runs/{format_instant(transition.slot)}?segment={segment}"


def clean(text: str, limit: int = MAX_LINE) -> str:
    """Return the text as one line of at most ``limit`` characters.

    If the text is longer, it is cut and gets a mark at the end. Blanks replace unprintable
    characters and characters that change the writing direction.
    """
    start = text[: limit + 1].encode("utf-8", "replace").decode("utf-8")
    line = printable(start)
    if len(line) <= limit:
        return line
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{line[: limit - 10]}…~{mark}"


def bounded_line(text: str, limit: int) -> str:
    """One printable line of at most ``limit`` characters.

    After right-to-left names invisible marks are added, so that the words of the line keep their
    order.
    """
    line = clean(text, limit)
    if not any(map(_changes_direction, line)):
        return line
    # Leave room for the marks: there is at most one mark for two characters.
    marked = ""
    for turns, run in groupby(clean(text, limit * 2 // 3), _changes_direction):
        marked += "".join(run) + _LEFT_TO_RIGHT_MARK * turns
    return marked


def cause_of(start: Transition) -> str:
    """Why the alert is firing, in a form for titles: its headline, or else its shortened reason."""
    return bounded_line(start.headline or start.reason, _LONGEST_CAUSE)


def links_of(change: Transition, external_url: str) -> tuple[tuple[str, str], ...]:
    """Return the links to the page of the change, and to the runbook if it has a web address."""
    name, page = _page_link(change, external_url)
    if len(page) > LONGEST_LINK:
        name = "rankwatch"
        page = external_url
    links = [(name, page)]
    if change.runbook_url is not None and _is_web(change.runbook_url):
        links.append(("runbook", change.runbook_url))
    return tuple(links)


def commands_of(
    change: Transition,
    segments: Collection[str] = (),
    alerts: Collection[str] = (),
    interval: timedelta | None = None,
    accept_since: datetime | None = None,
) -> tuple[str, ...]:
    """Return the commands for on-call: show the run, acknowledge, silence, accept, list all runs.

    ``segments`` and ``alerts`` are those of the incident (default: those of the change). If the
    change has no run, the first command shows the newest run. If the alert has ended, there are no
    commands to acknowledge or silence it. ``interval`` is the longest time between two runs.
    ``accept_since`` is the slot from which the change can be accepted, None if it should not be.
    """
    if change.kind is RuleKind.DATABASE:
        return (actions.CHECK_DATABASE,)
    if change.kind is RuleKind.TEST:
        return ()
    name = clean(change.comparison, _LONGEST_NAME)
    slot = change.slot if change.has_run else None
    commands = [actions.show_command(name, slot)]
    if not change.is_end:
        of_segments = set(segments) or {change.segment}
        of_alerts = set(alerts) or {change.alert}
        matchers = propose_matchers(change.comparison, of_segments, of_alerts)
        commands.append(_acknowledge_command(name, of_segments, of_alerts))
        if matchers:
            commands.append(actions.silence_command(matchers, interval))
    if accept_since is not None:
        commands.append(actions.accept_command(name, accept_since))
    commands.append(actions.runs_command(name))
    if change.is_stale_start:
        # There is no run to show, so the list of runs comes first, and the run last.
        commands[0], commands[-1] = commands[-1], commands[0]
    return tuple(commands)


def _acknowledge_command(
    comparison: str, segments: Collection[str], alerts: Collection[str]
) -> str:
    """The command for these alerts, or for all alerts of the comparison if the names are too long.

    It is also for all alerts if a name is not printable.
    """
    names = "".join([*segments, *alerts])
    if clean(names, _LONGEST_NAMES) != names:
        segments = ()
        alerts = ()
    return actions.acknowledge_command(comparison, segments, alerts)


def _changes_direction(char: str) -> bool:
    return char > "\u058f" and unicodedata.bidirectional(char) in _RIGHT_TO_LEFT


def _is_web(url: str) -> bool:
    is_plain = (
        len(url) <= LONGEST_LINK
        and url.isascii()
        and url.isprintable()
        and not any(char in url for char in '<>"|\\^`{}')
    )
    return is_plain and web_url_of(url) is not None
