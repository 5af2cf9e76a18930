"""Makes the labels, annotations and keys of alerts for other programs."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from monitor.model.alerts import Transition
from monitor.model.instants import format_instant
from monitor.model.notifications import Briefing
from monitor.model.rankings import ALL
from monitor.model.urgency import find_impact
from monitor.receivers.message.safe_text import cause_of, clean, commands_of
from monitor.texts.actions import write_urgency

_MAX_LABEL = 256
_REMEMBERED_MESSAGES = 256  # messages


def alert_labels(transition: Transition) -> dict[str, str]:
    """Return the labels that identify the alert. They do not change while the rule exists."""
    labels = {_label_name(name): value for name, value in sorted(transition.labels.items())}
    labels |= {
        "alertname": transition.alert,
        "comparison": transition.comparison,
        "segment": transition.segment,
        "severity": transition.severity.value,
        "metric": transition.metric,
        "statistic": transition.statistic,
    }
    return {name: clean(value, _MAX_LABEL) for name, value in labels.items()}


def alert_annotations(
    transition: Transition,
    briefing: Briefing | None,
    interval: timedelta | None,
) -> dict[str, str]:
    """Return the annotations of one change of the alert. Empty annotations are left out.

    ``briefing`` is on the run in which the alert began, or on a newer run. ``interval`` is the
    longest time between two runs of the comparison.
    """
    annotations = {
        "summary": summary_of(transition),
        "description": description_of(transition, briefing or Briefing(), interval),
        "explanation": clean(transition.explanation or ""),
        "value": "" if transition.value is None else f"{transition.value:.6g}",
        "threshold": f"{transition.threshold:.6g}",
        "users": str(transition.users),
        "runbook_url": clean(transition.runbook_url or ""),
    }
    return {name: text for name, text in annotations.items() if text}


def summary_of(transition: Transition) -> str:
    """One line with the alert, its comparison and segment, and why it is firing or has ended."""
    where = transition.comparison
    if transition.segment != ALL:
        where += f" ({transition.segment})"
    status = "resolved"
    why = transition.reason
    if transition.is_start:
        status = "firing"
        why = cause_of(transition)
    elif transition.removed is not None:
        status = "no longer watched"
    return clean(f"{transition.alert} {status} on {where}: {why}")


def description_of(transition: Transition, briefing: Briefing, interval: timedelta | None) -> str:
    """Return a few lines with the reason, the cause, the time, and commands that show more."""
    lines = [clean(transition.reason)]
    if transition.explanation is not None:
        lines.append(f"Why: {clean(transition.explanation)}")
    moment = f"reported at {format_instant(transition.at)}"
    if transition.has_run:
        moment = f"reported for the run of {format_instant(transition.slot)}"
    lines.append(f"{since_label(transition)} {format_instant(transition.since)}, {moment}")
    if transition.is_start:
        impact = find_impact([transition], briefing.explanation, briefing.reasons)
        lines.append(write_urgency(transition.severity, impact))
    commands = commands_of(transition, interval=interval)
    if commands:
        lines.append(f"Commands: {'; '.join(commands)}")
    return "\n".join(lines)


def since_label(transition: Transition) -> str:
    """Return the words that messages show before the instant `Transition.since`."""
    if transition.is_stale_start:
        return "no good run since"
    return "in breach since" if transition.is_start else "had been firing since"


def started_at(transition: Transition) -> datetime:
    """When the alert began to fire. For an end this is the slot of the start."""
    if transition.is_start:
        return transition.at
    return min(transition.since, transition.at)


def label_fingerprint(labels: Mapping[str, str]) -> str:
    """Return a hash of a set of labels, as 16 hexadecimal digits."""
    pairs = json.dumps(sorted(labels.items())).encode()
    return hashlib.sha256(pairs).hexdigest()[:16]


def _label_name(name: str) -> str:
    # Alertmanager rejects alerts with labels that have other characters in their names.
    legal = re.sub(r"[^a-zA-Z0-9_]", "_", clean(name, _MAX_LABEL))
    return legal if re.match(r"[a-zA-Z_]", legal) else f"_{legal}"


class DeliveredRecipients:
    """Remembers which recipients have got which message. This class is not thread-safe."""

    def __init__(self) -> None:
        self._reached: dict[str, set[str]] = {}

    def add(self, key: str, recipients: Iterable[str]) -> None:
        """Record that these recipients have got the message. The oldest messages are forgotten."""
        self._reached.setdefault(key, set()).update(recipients)
        while len(self._reached) > _REMEMBERED_MESSAGES:
            del self._reached[next(iter(self._reached))]

    def without(self, key: str, recipients: Sequence[str]) -> tuple[str, ...]:
        """Return the recipients that have not got the message yet.

        If all of them have got it, this returns all of them, because the message is then sent
        again.
        """
        reached = self._reached.get(key, set())
        missing = [recipient for recipient in recipients if recipient not in reached]
        return tuple(missing or recipients)
