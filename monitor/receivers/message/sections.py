"""The parts of a message that every channel lays out: short plain text, cleaned and bounded."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model import MessageStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeContent:
    """One start, acknowledgement or end: a heading, its reason in a sentence, and facts as (name, value)."""

    heading: str
    reason: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """A user's lists: rows of rank, the baseline's item and the candidate's, empty where a list has ended.

    Items are marked as gone, new, or with the rank they were at; a last row without a rank counts what is not shown.
    """

    user: str
    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent:
    """What a message reports of an incident. Every text is one line of printable characters, bounded; nothing in it is markup.

    Text that runs from right to left is followed by a left-to-right mark, which is the one character here that does not print;
    links and commands have none. ``title``: at most 200 characters. ``changes``: what began, was acknowledged or ended, in a
    repetition what still fires; the first few, ``others``: how many more there are. ``more``: sentences on these, and on what
    goes on firing. ``why``: sentences. ``shares``: parts of the drop and how much of it each is. ``entered``, ``left``: items
    whose place in lists grew and shrank most. ``links``: (name, URL), ``commands``: to be pasted in a shell.
    """

    status: MessageStatus
    severity: Severity
    title: str
    changes: tuple[ChangeContent, ...]
    others: int
    why: tuple[str, ...]
    shares: tuple[tuple[str, str], ...]
    entered: tuple[str, ...]
    left: tuple[str, ...]
    examples: tuple[SideBySide, ...]
    links: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    more: tuple[str, ...] = ()
