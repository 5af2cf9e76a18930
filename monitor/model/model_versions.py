"""Versions of the models that answer for the arms: whom each answered in a run, and which one is an arm's model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from monitor.model.instants import format_instant
from monitor.model.rankings import Arm

MOST_KEPT, MOST_COUNTED, LONGEST_VERSION = 8, 100, 100
"""Versions of an arm that are kept with a run, and that are told apart while it is under way; characters of one."""
LEAST_SHARE = 2 / 3
"""Of the users whose version is known a version has to answer so many to become the arm's model: below that a deployment is
under way, and the model stays what it was, so that it does not go back and forth while both answer about as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmModel:
    """The model of one arm as of one run; each is None where it is not known."""

    now: str | None = None
    before: str | None = None
    since: datetime | None = None  # of the run that first saw ``now`` in place of ``before``
    users: Mapping[str, int] = field(default_factory=dict)  # that each version answered in this run

    def followed_by(self, users: Mapping[str, int], slot: datetime) -> ArmModel:
        """The model as of the next run, of this slot, in which versions answered so many users.

        With none it stays.
        """
        ranked = dict(sorted(users.items(), key=lambda each: (-each[1], each[0]))[:MOST_KEPT])
        most = LEAST_SHARE * sum(users.values())
        version = next((name for name, count in ranked.items() if count >= most), self.now)
        if version == self.now:
            return replace(self, users=ranked)
        return ArmModel(
            now=version, before=self.now, since=slot if self.now else None, users=ranked
        )


Models = Mapping[Arm, ArmModel]


def follow(
    last: Models | None, versions: Mapping[Arm, Mapping[str, int]], slot: datetime
) -> Models | None:
    """The models as of the run of the slot, from those of the last run, of arms of which something is known."""
    models = {
        arm: (last or {}).get(arm, ArmModel()).followed_by(versions.get(arm, {}), slot)
        for arm in Arm
    }
    return {arm: each for arm, each in models.items() if each.users or each.now} or None


def count_versions(counted: dict[str, int], found: Iterable[tuple[object, int]]) -> dict[str, int]:
    """Add users to those counted by version.

    What names no version is passed over, and memory stays bounded.
    """
    for value, users in found:
        text = str(value).strip()[:LONGEST_VERSION] if isinstance(value, str | int | float) else ""
        if text:
            name = text if text in counted or len(counted) < MOST_COUNTED else "(others)"
            counted[name] = counted.get(name, 0) + users
    return counted


def tell_models(models: Models | None, slot: datetime, after: datetime) -> list[str]:
    """That an arm's model changed with the run of the slot, or with one after the other time, as a part of a sentence each."""
    return [
        f"the {arm}'s model changed with "
        f"{'this run' if each.since == slot else f'the run of {format_instant(each.since)}'}, "
        f"{each.before} → {each.now}"
        for arm, each in (models or {}).items()
        if each.since is not None and each.since > after
    ]


def write_models(models: Models | None, slot: datetime) -> tuple[str, ...]:
    """What is told of models in messages: a sentence on each that changed with the run of the slot or in the week before."""
    return tuple(f"T{part[1:]}." for part in tell_models(models, slot, slot - timedelta(days=7)))
