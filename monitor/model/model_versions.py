"""Versions of the models that answer for the arms: whom each answered in a run, and which one is an arm's model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from monitor.model.rankings import Arm

MOST_KEPT, MOST_COUNTED = 8, 100
"""Versions of an arm that are kept with a run, the most common ones, and that are told apart while a run is under way."""
LONGEST_VERSION = 100
OTHERS = "(others)"
"""What the users of further versions are counted under."""
LEAST_SHARE = 2 / 3
"""Of the users whose version is known a version has to answer so many to become the arm's model: below that a deployment is
under way, and the model stays what it was, so that it does not go back and forth while both answer about as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmModel:
    """The model of one arm as of one run: the version ``now``, since the run of ``since`` in place of ``before``.

    Each is None where it is not known. ``users``: how many each version answered in this run, the most common first.
    """

    now: str | None = None
    before: str | None = None
    since: datetime | None = None
    users: Mapping[str, int] = field(default_factory=dict)

    def followed_by(self, users: Mapping[str, int], slot: datetime) -> ArmModel:
        """The model as of the next run, of this slot, in which versions answered so many users; with none it stays."""
        ranked = rank_versions(users)
        version = next((name for name, count in ranked.items() if count >= LEAST_SHARE * sum(users.values())), None)
        if version in (None, self.now):
            return replace(self, users=ranked)
        return ArmModel(now=version, before=self.now, since=None if self.now is None else slot, users=ranked)


def follow(
    last: Mapping[Arm, ArmModel] | None, versions: Mapping[Arm, Mapping[str, int]], slot: datetime
) -> dict[Arm, ArmModel] | None:
    """Both arms' models as of the run of the slot, from those of the last run; None as long as no version is known."""
    models = {arm: (last or {}).get(arm, ArmModel()).followed_by(versions.get(arm, {}), slot) for arm in Arm}
    return models if any(each.users or each.now for each in models.values()) else None


def count_versions(counted: dict[str, int], found: Iterable[tuple[object, int]]) -> None:
    """Add users to those counted by version; what names no version is passed over, and memory stays bounded."""
    for value, users in found:
        text = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
        text = text if len(text) <= LONGEST_VERSION else f"{text[: LONGEST_VERSION - 3]}..."
        if text:
            name = text if text in counted or len(counted) < MOST_COUNTED else OTHERS
            counted[name] = counted.get(name, 0) + users


def rank_versions(users: Mapping[str, int]) -> dict[str, int]:
    """The versions that answered most users, the most common first."""
    return dict(sorted(users.items(), key=lambda each: (-each[1], each[0]))[:MOST_KEPT])
