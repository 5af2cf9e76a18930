"""Messages for tests of receivers."""

from typing import Any

from factories import transition
from monitor.model import Message, Severity, State, Transition

FIRING = transition(explanation="All of the drop: everywhere, items moved.", interval=(0.241, 0.267), normal=0.512)
ENDED = transition(from_state=State.FIRING, to_state=State.QUIET, value=None, reason="fine again", runbook_url=None)
SEEN = transition(from_state=State.FIRING, to_state=State.FIRING, reason="acknowledged by kim")
OTHER = transition(segment="country=DE", dedup_key="fedcba9876543210fedcba9876543210")


def message(*changes: Transition, firing: tuple[Transition, ...] = (), **more: Any) -> Message:
    base: dict[str, Any] = {"incident": "incident-1", "comparison": "home-feed", "severity": Severity.CRITICAL}
    return Message(changes=changes, firing=firing, **{**base, **more})


START = message(FIRING, firing=(FIRING,))
END = message(ENDED)
