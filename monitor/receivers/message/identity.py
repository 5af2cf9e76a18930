"""How other programs identify alerts: labels and annotations, as in Alertmanager."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from monitor.model.alerts import Transition
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL
from monitor.receivers.message.safe_text import cause_of, clean, commands_of

_MAX_LABEL = 256
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_FNV_MASK = 2**64 - 1
_SEPARATOR = b"\xff"
_REMEMBERED = 256  # messages


def alert_labels(transition: Transition) -> dict[str, str]:
    """Labels that name the alert as long as its rule exists. They do not change between runs."""
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


def alert_annotations(transition: Transition) -> dict[str, str]:
    """Annotations of one change of the alert, without empty ones."""
    annotations = {
        "summary": summary_of(transition),
        "description": description_of(transition),
        "explanation": clean(transition.explanation or ""),
        "value": "" if transition.value is None else f"{transition.value:.6g}",
        "threshold": f"{transition.threshold:.6g}",
        "users": str(transition.users),
        "runbook_url": clean(transition.runbook_url or ""),
    }
    return {name: text for name, text in annotations.items() if text}


def summary_of(transition: Transition) -> str:
    """One line: which alert, where, and why it fires or no longer does."""
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


def description_of(transition: Transition) -> str:
    """A few lines: the reason, why, since when, and commands that show more."""
    lines = [clean(transition.reason)]
    if transition.explanation is not None:
        lines.append(f"Why: {clean(transition.explanation)}")
    moment = f"reported at {format_instant(transition.at)}"
    if transition.has_run:
        moment = f"reported for the run of {format_instant(transition.slot)}"
    lines.append(f"{since_label(transition)} {format_instant(transition.since)}, {moment}")
    lines.append(f"To see more: {'; '.join(commands_of(transition))}")
    return "\n".join(lines)


def since_label(transition: Transition) -> str:
    """What the alert did since `Transition.since`."""
    return "in breach since" if transition.is_start else "had been firing since"


def started_at(transition: Transition) -> datetime:
    """When the firing began. For an end the slot of its start, since the instant is unknown."""
    if transition.is_start:
        return transition.at
    return min(transition.since, transition.at)


def label_fingerprint(labels: Mapping[str, str]) -> str:
    """The fingerprint of a set of labels, as in Prometheus, as 16 hex digits.

    It is the 64-bit FNV-1a of the sorted names and values.
    """
    digest = _FNV_OFFSET
    for name, value in sorted(labels.items()):
        for byte in name.encode() + _SEPARATOR + value.encode() + _SEPARATOR:
            digest = ((digest ^ byte) * _FNV_PRIME) & _FNV_MASK
    return f"{digest:016x}"


def _label_name(name: str) -> str:
    # Alertmanager rejects alerts with other names.
    legal = re.sub(r"[^a-zA-Z0-9_]", "_", clean(name, _MAX_LABEL))
    return legal if re.match(r"[a-zA-Z_]", legal) else f"_{legal}"


class DeliveredRecipients:
    """Recipients by message. Not thread-safe."""

    def __init__(self) -> None:
        self._reached: dict[str, set[str]] = {}

    def add(self, key: str, recipients: Iterable[str]) -> None:
        """Record that these recipients have the message. Forgets the oldest of many messages."""
        self._reached.setdefault(key, set()).update(recipients)
        while len(self._reached) > _REMEMBERED:
            del self._reached[next(iter(self._reached))]

    def without(self, key: str, recipients: Sequence[str]) -> tuple[str, ...]:
        """The recipients that do not have it yet. All of them if each one has it.

        In that case the caller wants to send it again.
        """
        reached = self._reached.get(key, set())
        missing = [recipient for recipient in recipients if recipient not in reached]
        return tuple(missing or recipients)
