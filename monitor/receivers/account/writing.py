"""Text, links and commands that are safe to show, whatever names they are made of."""

from __future__ import annotations

import shlex
import unicodedata
from itertools import groupby
from urllib.parse import urlsplit

from monitor.model import Transition
from monitor.receivers.wording import clean, link_to, moment

LONGEST_LINK = 1500
"""Characters of a URL; Slack and PagerDuty take more, mail clients break longer ones."""

_MARK = "\u200e"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_LONGEST_NAME = 200


def say(text: str, limit: int) -> str:
    """One printable line of at most ``limit`` characters; names from right to left stay where they are."""
    line = clean(text, limit)
    if not any(map(_turns, line)):
        return line
    # Every mark stands behind a run of at least one character and before another.
    runs = ["".join(run) + _MARK * turns for turns, run in groupby(clean(text, limit * 2 // 3), _turns)]
    return "".join(runs)


def links_of(change: Transition, external_url: str) -> tuple[tuple[str, str], ...]:
    """The comparison's page, and the runbook where there is one that can be opened."""
    page = link_to(change, external_url)
    links = [("dashboard", page if len(page) <= LONGEST_LINK else external_url)]
    if (runbook := change.runbook_url) is not None and _is_web(runbook):
        links.append(("runbook", runbook))
    return tuple(links)


def commands_of(change: Transition) -> tuple[str, ...]:
    """What shows the run of this change, and what measures it anew without telling anybody."""
    name, slot = shlex.quote(clean(change.comparison, _LONGEST_NAME)), moment(change.slot)
    return (f"rankwatch show {name} --slot {slot}", f"rankwatch replay {name} --from {slot} --to {slot}")


def _turns(char: str) -> bool:
    return char > "\u058f" and unicodedata.bidirectional(char) in _RIGHT_TO_LEFT


def _is_web(url: str) -> bool:
    if len(url) > LONGEST_LINK or not url.isascii() or not url.isprintable() or any(char in url for char in ' <>"|\\^`{}'):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
