"""The whole account of one message."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model import Briefing, Message, Transition
from monitor.receivers.account.changes import TOLD, choose, tell_change, tell_more, title_of
from monitor.receivers.account.parts import Account
from monitor.receivers.account.reasons import name_items, share_out, show_examples, tell_why
from monitor.receivers.account.writing import commands_of, links_of


def account_of(message: Message, external_url: str) -> Account:
    """What every channel tells of this message, bounded whatever its size: at most `TOLD` changes, two users, ten items.

    One explanation is told, that of the weightiest change which has one: firings that are told together have one cause more
    often than not. ``external_url`` is where this daemon's own pages are reached.
    """
    told = choose(message)
    speaker = _speaker(told)
    briefing = message.briefing if speaker is not None and message.briefing is not None else Briefing()
    explanation = briefing.explanation
    return Account(
        status=message.status,
        severity=message.severity,
        title=title_of(message, told),
        changes=tuple(tell_change(change, message) for change in told[:TOLD]),
        others=max(len(told) - TOLD, 0),
        more=tell_more(message, told),
        why=() if speaker is None else tell_why(speaker, explanation),
        shares=() if explanation is None else share_out(explanation),
        entered=() if explanation is None else name_items(explanation.gained),
        left=() if explanation is None else name_items(explanation.lost),
        examples=show_examples(briefing),
        links=links_of(told[0], external_url),
        commands=commands_of(told[0]),
    )


def _speaker(told: Sequence[Transition]) -> Transition | None:
    return next((change for change in told if change.explanation is not None), None)
