"""The body of a request: version 4 of what Alertmanager posts to webhooks.

::

    {"version": "4", "groupKey": INCIDENT, "truncatedAlerts": 0, "status": "firing" | "resolved", "receiver": NAME,
     "groupLabels": {"comparison": ..., "severity": ...}, "commonLabels": {...}, "commonAnnotations": {...},
     "externalURL": "...", "alerts": [
        {"status": "firing" | "resolved", "labels": {"alertname": ..., "comparison": ..., "segment": ..., "severity": ...,
         "metric": ..., "statistic": ..., and those of the rule}, "annotations": {...}, "startsAt": "...", "endsAt": "...",
         "generatorURL": "...", "fingerprint": "..."}]}

``alerts`` are what begins or ends, in the order it was stored, then what fires still. ``status`` is ``resolved`` once nothing
of the incident fires any more; ``groupKey`` is shared by all messages of the incident and by nothing else. ``endsAt`` of an
alert that fires is ``0001-01-01T00:00:00Z``, as there.

The annotations of an alert are text: ``summary``, ``description``, ``value``, ``threshold``, ``users``, ``reason``,
``direction``, ``from``, ``to``, ``slot``, ``at``, ``since``, ``dedup_key`` (shared by a firing and its end and by nothing
else), ``explanation``, ``runbook_url``, ``interval`` (95 %, ``low high``), ``normal``, and ``acknowledgement`` in the message
that tells it; those that would be empty are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monitor.model import Message, MessageStatus, Transition
from monitor.receivers.labelling import annotations_of, fingerprint_of, labels_of
from monitor.receivers.wording import clean, link_to, moment

_NO_END = "0001-01-01T00:00:00Z"


def body_of(message: Message, *, receiver: str, external_url: str, max_alerts: int = 0) -> dict[str, Any]:
    """The body, as this module's docstring describes it; at most ``max_alerts`` alerts, all of them for 0."""
    told = _told(message)
    shown = told[:max_alerts] if max_alerts else told
    acknowledged = {each.dedup_key: clean(each.reason) for each in message.changes if each.is_acknowledgement}
    alerts = [_alert(change, external_url, acknowledged.get(change.dedup_key, "")) for change in shown]
    return {
        "version": "4",
        "groupKey": message.incident,
        "truncatedAlerts": len(told) - len(shown),
        "status": "resolved" if message.status is MessageStatus.RESOLVED else "firing",
        "receiver": receiver,
        "groupLabels": {"comparison": clean(message.comparison, 256), "severity": message.severity.value},
        "commonLabels": _common([alert["labels"] for alert in alerts]),
        "commonAnnotations": _common([alert["annotations"] for alert in alerts]),
        "externalURL": external_url,
        "alerts": alerts,
    }


def count_fewest(message: Message) -> int:
    """Alerts that the message is about, which come first: those that change, else one of those that fire still."""
    return max(len({change.dedup_key for change in message.changes}), 1)


def _told(message: Message) -> list[Transition]:
    """Starts and ends that are told, then what fires still, acknowledged first; a firing once, by the last that is known."""
    told = {change.dedup_key: change for change in message.changes if not change.is_acknowledgement}
    acknowledged = {change.dedup_key for change in message.changes if change.is_acknowledgement}
    still = sorted(message.firing, key=lambda start: start.dedup_key not in acknowledged)
    return list({**told, **{start.dedup_key: start for start in still if start.dedup_key not in told}}.values())


def _alert(change: Transition, external_url: str, acknowledgement: str) -> dict[str, Any]:
    """One alert. An end does not know when its firing began; it names the slot of it."""
    labels = labels_of(change)
    said = {**annotations_of(change), **_figures(change), "acknowledgement": acknowledgement}
    return {
        "status": "firing" if change.is_start else "resolved",
        "labels": labels,
        "annotations": {name: text for name, text in sorted(said.items()) if text},
        "startsAt": moment(change.at if change.is_start else min(change.since, change.at)),
        "endsAt": _NO_END if change.is_start else moment(change.at),
        "generatorURL": link_to(change, external_url),
        "fingerprint": fingerprint_of(labels),
    }


def _figures(change: Transition) -> dict[str, str]:
    """What has no place of its own in this shape."""
    return {
        "dedup_key": change.dedup_key or "",
        "reason": clean(change.reason),
        "direction": change.direction.value,
        "from": change.from_state.value,
        "to": change.to_state.value,
        "slot": moment(change.slot),
        "at": moment(change.at),
        "since": moment(change.since),
        "interval": "" if change.interval is None else " ".join(f"{bound:.6g}" for bound in change.interval),
        "normal": "" if change.normal is None else f"{change.normal:.6g}",
    }


def _common(entries: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all of them share."""
    if not entries:
        return {}
    return {name: text for name, text in entries[0].items() if all(each.get(name) == text for each in entries)}
