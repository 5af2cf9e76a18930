"""What a message says, channel by channel the same: short pieces of plain text, cleaned and bounded, that receivers lay out."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model import MessageStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAccount:
    """One start, acknowledgement or end: a heading, its reason in a sentence, and facts as (name, value)."""

    heading: str
    reason: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """A user's lists: rows of rank, the baseline's item and the candidate's, empty where a list has ended."""

    user: str
    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is told of an incident. Every text is one line of printable characters, bounded; nothing in it is markup.

    ``others``: changes that are not among ``changes``. ``why``: sentences. ``shares``: parts of the drop and how much of it
    each is. ``links``: (name, URL), ``commands``: to be pasted in a shell.
    """

    status: MessageStatus
    severity: Severity
    title: str
    changes: tuple[ChangeAccount, ...]
    others: int
    why: tuple[str, ...]
    shares: tuple[tuple[str, str], ...]
    entered: tuple[str, ...]
    left: tuple[str, ...]
    examples: tuple[SideBySide, ...]
    links: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
