"""Versions of the models that answer for the arms: whom each answered in a run, and which one is an arm's model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

MOST_KEPT = 8
"""Versions of an arm that are kept with a run, the most common ones."""
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


def rank_versions(users: Mapping[str, int]) -> dict[str, int]:
    """The versions that answered most users, the most common first."""
    return dict(sorted(users.items(), key=lambda each: (-each[1], each[0]))[:MOST_KEPT])
