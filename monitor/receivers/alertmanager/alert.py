"""One alert as the API takes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from monitor.model import Transition
from monitor.receivers.labelling import annotations_of, labels_of
from monitor.receivers.wording import link_to, moment


def alert_of(
    transition: Transition, firing_ends_at: datetime, external_url: str, labels: Mapping[str, str] | None = None
) -> dict[str, object]:
    """One alert as the API takes it, with these labels besides, but for those that it has itself.

    It starts when it began to fire. An end does not know that moment; it names the slot of the firing, and Alertmanager,
    which knows the alert by its labels, keeps the earliest start.
    """
    starts_at = transition.at if transition.is_start else min(transition.since, transition.at)
    ends_at = max(firing_ends_at, starts_at) if transition.is_start else transition.at
    return {
        "labels": {**(labels or {}), **labels_of(transition)},
        "annotations": annotations_of(transition),
        "startsAt": moment(starts_at),
        "endsAt": moment(ends_at),
        "generatorURL": link_to(transition, external_url),
    }
