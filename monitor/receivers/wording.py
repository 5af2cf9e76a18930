"""What every message says of a transition, in plain text that is bounded and safe to put anywhere."""

from __future__ import annotations

import hashlib
import shlex
from datetime import datetime
from urllib.parse import quote

from monitor.model import ALL, Transition, spell

MAX_TEXT = 2000


def status_of(transition: Transition) -> str:
    """``firing`` or ``resolved``."""
    return "firing" if transition.is_start else "resolved"


def summary_of(transition: Transition) -> str:
    """One line: which alert, where, and why it fires or no longer does."""
    where = transition.comparison if transition.segment == ALL else f"{transition.comparison} ({transition.segment})"
    return clean(f"{transition.alert} {status_of(transition)} on {where}: {transition.reason}")


def description_of(transition: Transition) -> str:
    """A few lines: the figures, why, since when, and what to run to see more."""
    name = shlex.quote(clean(transition.comparison, 200))
    value = "no value" if transition.value is None else f"value {transition.value:.6g}"
    limit = f"in breach when {transition.direction} {transition.threshold:.6g}"
    why = [] if transition.explanation is None else [f"Why: {clean(transition.explanation)}"]
    since = "in breach since" if transition.is_start else "had been firing since"
    return "\n".join([
        clean(transition.reason),
        clean(f"{transition.statistic} of {transition.metric}: {value}, {limit}, {transition.users:,} users"),
        *why,
        f"{since} {moment(transition.since)}, told for the run of {moment(transition.slot)}",
        f"To see more: rankwatch show {name} --slot {moment(transition.slot)}; rankwatch alerts --comparison {name}",
    ])  # fmt: skip


def link_to(transition: Transition, external_url: str) -> str:
    """Address of the comparison's page on this daemon, with the alert and segment it is about."""
    alert, segment = (quote(clean(text, 200), safe="") for text in (transition.alert, transition.segment))
    page = f"{external_url.rstrip('/')}/comparisons/{quote(clean(transition.comparison, 200), safe='')}"
    return f"{page}?alert={alert}&segment={segment}"


def moment(instant: datetime) -> str:
    """An instant as RFC 3339 in UTC."""
    return spell(instant)


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """One line of valid UTF-8 that prints, at most ``limit`` long; a cut text ends in a mark of its own.

    Blanks stand for what does not print: controls, line breaks, and whatever turns or hides the writing.
    """
    start = text[: limit + 1].encode("utf-8", "replace").decode("utf-8")
    line = "".join(char if char.isprintable() else " " for char in start)
    if len(line) <= limit:
        return line
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{line[: limit - 10]}…~{mark}"
