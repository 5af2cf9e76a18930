"""How other programs know alerts and messages: labels and annotations, as Alertmanager has them."""

import re
from collections.abc import Iterable, Mapping, Sequence

from monitor.model.alerts import Transition
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL
from monitor.receivers.message.safe_text import cause_of, clean, commands_of

_MAX_LABEL = 256
_FNV_OFFSET, _FNV_PRIME, _FNV_MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1
_SEPARATOR = b"\xff"
_REMEMBERED = 256  # messages


def alert_labels(transition: Transition) -> dict[str, str]:
    """Labels that name the alert for as long as its rule stands: nothing here changes from run to run, above all no value."""
    ours = {
        "alertname": transition.alert,
        "comparison": transition.comparison,
        "segment": transition.segment,
        "severity": transition.severity.value,
        "metric": transition.metric,
        "statistic": transition.statistic,
    }
    given = {_label_name(name): value for name, value in sorted(transition.labels.items())}
    return {name: clean(value, _MAX_LABEL) for name, value in {**given, **ours}.items()}


def alert_annotations(transition: Transition) -> dict[str, str]:
    """Annotations of one change of the alert; none that would be empty."""
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
    where = (
        transition.comparison
        if transition.segment == ALL
        else f"{transition.comparison} ({transition.segment})"
    )
    ended = "resolved" if transition.removed is None else "no longer watched"
    status, why = (
        ("firing", cause_of(transition)) if transition.is_start else (ended, transition.reason)
    )
    return clean(f"{transition.alert} {status} on {where}: {why}")


def description_of(transition: Transition) -> str:
    """A few lines: the reason, why, since when, and what to run to see more."""
    why = [] if transition.explanation is None else [f"Why: {clean(transition.explanation)}"]
    since = "in breach since" if transition.is_start else "had been firing since"
    run = f"reported for the run of {format_instant(transition.slot)}"
    moment = run if transition.has_run else f"reported at {format_instant(transition.at)}"
    return "\n".join([
        clean(transition.reason),
        *why,
        f"{since} {format_instant(transition.since)}, {moment}",
        f"To see more: {'; '.join(commands_of(transition))}",
    ])  # fmt: skip


def label_fingerprint(labels: Mapping[str, str]) -> str:
    """Name of a set of labels as Prometheus has it: 64-bit FNV-1a of its names and values in order, as 16 hex digits."""
    text = b"".join(part.encode() + _SEPARATOR for item in sorted(labels.items()) for part in item)
    digest = _FNV_OFFSET
    for byte in text:
        digest = ((digest ^ byte) * _FNV_PRIME) & _FNV_MASK
    return f"{digest:016x}"


def _label_name(name: str) -> str:
    # The nearest name that Alertmanager accepts: one bad name would make it refuse the alert.
    legal = re.sub(r"[^a-zA-Z0-9_]", "_", clean(name, _MAX_LABEL))
    return legal if re.match(r"[a-zA-Z_]", legal) else f"_{legal}"


class DeliveredRecipients:
    """Recipients by message. Not for several threads."""

    def __init__(self) -> None:
        self._reached: dict[str, set[str]] = {}

    def add(self, key: str, addressees: Iterable[str]) -> None:
        """These have the message; of many messages the oldest is forgotten."""
        self._reached.setdefault(key, set()).update(addressees)
        while len(self._reached) > _REMEMBERED:
            del self._reached[next(iter(self._reached))]

    def without(self, key: str, addressees: Sequence[str]) -> tuple[str, ...]:
        """The recipients that do not have it yet; all of them once each has it."""
        reached = self._reached.get(key, set())
        # Whoever asks once all have it means to send it anew.
        return tuple(each for each in addressees if each not in reached) or tuple(addressees)
