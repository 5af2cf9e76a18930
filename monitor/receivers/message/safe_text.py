"""Text, links and commands that are bounded and safe to show anywhere, whatever names they are made of."""

import hashlib
import re
import shlex
import unicodedata
from itertools import groupby
from urllib.parse import quote

from monitor.alerts.verdicts import shorten_reason
from monitor.model.alerts import Removed, Transition
from monitor.model.instants import format_instant
from monitor.model.rules import RuleKind
from monitor.options import web_url_of

MAX_LINE = 2000

LONGEST_LINK = 1500
"""Characters of a URL; Slack and PagerDuty take more, mail clients break longer ones."""
_MARK = "\u200e"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_LONGEST_NAME = 200
_LONGEST_CAUSE = 300
_FINDING = re.compile(r"(?:About )?[0-9,]+ of [0-9,]+ users \(.+?(?=\.(?: |$))")


def page_url(transition: Transition, external_url: str) -> str:
    """Address of the page of the run on this daemon.

    Of the comparison where the change has no run or is about conditions.

    A comparison that was removed has no page: then it is the first page.
    """
    if transition.removed is Removed.COMPARISON:
        return external_url
    page = f"{external_url.rstrip('/')}/c/{quote(clean(transition.comparison, 200), safe='')}"
    if transition.kind is RuleKind.CONDITION or not transition.has_run:
        return page
    return f"{page}/runs/{format_instant(transition.slot)}?segment={quote(clean(transition.segment, 200), safe='')}"


def clean(text: str, limit: int = MAX_LINE) -> str:
    """One line of UTF-8, blanks for what does not print or turns the writing, cut to ``limit`` with a mark."""
    start = text[: limit + 1].encode("utf-8", "replace").decode("utf-8")
    line = "".join(char if char.isprintable() else " " for char in start)
    if len(line) <= limit:
        return line
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{line[: limit - 10]}…~{mark}"


def bounded_line(text: str, limit: int) -> str:
    """One printable line of at most ``limit`` characters.

    Names from right to left stay where they are.
    """
    line = clean(text, limit)
    if not any(map(_turns, line)):
        return line
    # Every mark stands behind a run of at least one character and before another.
    runs = [
        "".join(run) + _MARK * turns for turns, run in groupby(clean(text, limit * 2 // 3), _turns)
    ]
    return "".join(runs)


def cause_of(start: Transition) -> str:
    """Why it fires, in a headline's words: what was found in the lists, else what its reason says first."""
    found = _FINDING.search((start.explanation or "")[:MAX_LINE])
    return bounded_line(
        found[0] if found else shorten_reason(start.reason[:MAX_LINE]), _LONGEST_CAUSE
    )


def links_of(change: Transition, external_url: str) -> tuple[tuple[str, str], ...]:
    """The comparison's page, and the runbook where there is one that can be opened."""
    page = page_url(change, external_url)
    links = [("dashboard", page if len(page) <= LONGEST_LINK else external_url)]
    if (runbook := change.runbook_url) is not None and _is_web(runbook):
        links.append(("runbook", runbook))
    return tuple(links)


def commands_of(change: Transition) -> tuple[str, ...]:
    """Commands: one shows the run of this change, else the newest run, and one lists runs.

    They only read.
    """
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
