"""Groups deliveries into messages. A message that may have arrived keeps its changes and key."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from monitor.alerts.notification_policy import Decision, compose_messages
from monitor.model.alerts import Transition
from monitor.model.notifications import (
    Delivery,
    DeliveryStatus,
    FiringSnapshot,
    Message,
)

_LARGEST_GROUP = 250


def group_by_message(deliveries: Iterable[Delivery]) -> dict[str | None, list[Delivery]]:
    """Group the deliveries that may have been sent in the same message, by that message's key.

    The key is None for deliveries that cannot have been sent yet.
    """
    by_key: dict[str | None, list[Delivery]] = {}
    for delivery in deliveries:
        by_key.setdefault(delivery.message_key, []).append(delivery)
    return by_key


def decide_together(decisions: Sequence[Decision]) -> Iterator[Decision]:
    """If a message may have arrived, make the same decision on all its changes.

    If one change is sent, all are sent. If no change is sent and one is held back, all are held
    back. A message that may have arrived has a key, and all its deliveries have this key.
    """
    # The first decision to send (None) and the first one to hold (HELD), for each message.
    first_decisions: dict[tuple[str | None, DeliveryStatus | None], Decision] = {}
    for decision in decisions:
        first_decisions.setdefault(
            (decision.delivery.message_key, decision.unsent_status), decision
        )
    for decision in decisions:
        key = decision.delivery.message_key
        common = decision
        if key is not None:
            for status in (None, DeliveryStatus.HELD):
                if (key, status) in first_decisions:
                    common = first_decisions[key, status]
                    break
        yield common._replace(delivery=decision.delivery)


def compose_due_messages(deliveries: Iterable[Delivery], snapshot: FiringSnapshot) -> list[Message]:
    """Compose messages. Messages that may have arrived come first and keep their keys."""
    by_key = group_by_message(deliveries)
    new_changes = [delivery.transition for delivery in by_key.pop(None, ())]
    messages = []
    for key, possibly_sent in by_key.items():
        changes = [delivery.transition for delivery in possibly_sent]
        for message in compose_messages(changes, snapshot):
            messages.append(replace(message, key=key))
        # The next messages are composed as if this message had arrived.
        starts = [change for change in changes if change.is_start]
        snapshot = replace(
            snapshot,
            sent_starts=(*snapshot.sent_starts, *starts),
            delivered=snapshot.delivered.union(str(start.dedup_key) for start in starts),
        )
    messages += compose_messages(new_changes, snapshot)
    return messages


def group_incidents(changes: Iterable[Transition]) -> list[list[Transition]]:
    """Group changes for messages. All changes of an incident are in one group.

    A group has incidents of one comparison, with together at most `_LARGEST_GROUP` changes. Only a
    larger incident exceeds this, and it is alone in its group.
    """
    by_incident: dict[tuple[str, str | None], list[Transition]] = {}
    for change in changes:
        key = (change.comparison, change.incident or change.dedup_key)
        by_incident.setdefault(key, []).append(change)
    groups: list[list[Transition]] = []
    for incident in sorted(by_incident.values(), key=lambda changes: changes[0].comparison):
        if groups and _fit_together(groups[-1], incident):
            groups[-1] += incident
        else:
            groups.append(incident)
    return groups


def _fit_together(group: Sequence[Transition], incident: Sequence[Transition]) -> bool:
    is_small = len(group) + len(incident) <= _LARGEST_GROUP
    return is_small and group[0].comparison == incident[0].comparison


def change_key(change: Transition) -> tuple[object, ...]:
    """Return a key that no two changes of a comparison share."""
    return change.dedup_key, change.from_state, change.to_state, change.slot
