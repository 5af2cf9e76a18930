"""Text, links and commands that are bounded and safe to show, whatever names are in them."""

import hashlib
import shlex
import unicodedata
from itertools import groupby
from urllib.parse import quote

from monitor.model.alerts import Removed, Transition
from monitor.model.instants import format_instant
from monitor.model.rules import RuleKind
from monitor.options import web_url_of
from monitor.texts.wording import printable

MAX_LINE = 2000

LONGEST_LINK = 1500
"""Characters of a URL. Slack and PagerDuty accept more, but mail clients break longer ones."""
_MARK = "\u200e"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_LONGEST_NAME = 200
_LONGEST_CAUSE = 300


def page_url(transition: Transition, external_url: str) -> str:
    """URL of the run's page on this daemon.

    The comparison's page if the change has no run or is about conditions. The first page if the
    comparison was removed.
    """
    if transition.removed is Removed.COMPARISON:
        return external_url
    page = f"{external_url.rstrip('/')}/c/{quote(clean(transition.comparison, 200), safe='')}"
    if transition.kind is RuleKind.CONDITION or not transition.has_run:
        return page
    segment = quote(clean(transition.segment, 200), safe="")
    return f"{page}/runs/{format_instant(transition.slot)}?segment={segment}"


def clean(text: str, limit: int = MAX_LINE) -> str:
    """One line of UTF-8, cut to ``limit`` characters with a mark.

    Unprintable characters and characters that change the writing direction become blanks.
    """
    start = text[: limit + 1].encode("utf-8", "replace").decode("utf-8")
    line = printable(start)
    if len(line) <= limit:
        return line
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{line[: limit - 10]}…~{mark}"


def bounded_line(text: str, limit: int) -> str:
    """One printable line of at most ``limit`` characters. Right-to-left names keep their place."""
    line = clean(text, limit)
    if not any(map(_turns, line)):
        return line
    # At most one mark for two characters is added.
    marked = ""
    for turns, run in groupby(clean(text, limit * 2 // 3), _turns):
        marked += "".join(run) + _MARK * turns
    return marked


def cause_of(start: Transition) -> str:
    """Why it fires, for a title: its headline, else its reason, shortened."""
    return bounded_line(start.headline or start.reason, _LONGEST_CAUSE)


def links_of(change: Transition, external_url: str) -> tuple[tuple[str, str], ...]:
    """The page of the change, and the runbook if there is one that can be opened."""
    page = page_url(change, external_url)
    links = [("dashboard", page if len(page) <= LONGEST_LINK else external_url)]
    if change.runbook_url is not None and _is_web(change.runbook_url):
        links.append(("runbook", change.runbook_url))
    return tuple(links)


def commands_of(change: Transition) -> tuple[str, ...]:
    """Two commands, which only read: the run of this change, else the newest run, and all runs."""
    name = shlex.quote(clean(change.comparison, _LONGEST_NAME))
    which = f" --slot {format_instant(change.slot)}" if change.has_run else ""
    return (f"rankwatch show {name}{which}", f"rankwatch runs {name}")


def _turns(char: str) -> bool:
    return char > "\u058f" and unicodedata.bidirectional(char) in _RIGHT_TO_LEFT


def _is_web(url: str) -> bool:
    is_plain = (
        len(url) <= LONGEST_LINK
        and url.isascii()
        and url.isprintable()
        and not any(char in url for char in '<>"|\\^`{}')
    )
    return is_plain and web_url_of(url) is not None
