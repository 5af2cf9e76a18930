"""Counts how many users each version of a model answered, and decides which is the arm's model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime
from operator import itemgetter

from monitor.model.immutable import immutable
from monitor.model.rankings import Arm

MOST_KEPT = 8
"""How many versions of an arm are stored with a run."""
MOST_VERSIONS = 100
"""How many versions of an arm a run counts separately."""
LONGEST_VERSION = 100
"""The largest number of characters in a version's name."""
LEAST_MODEL_SHARE = 2 / 3
"""A version becomes the arm's model if it answers at least this share of the users.

Only users with a reported version are counted. During a deployment no version may reach this
share. The arm's model then stays the same.
"""


@immutable
class ArmModel:
    """The model of one arm in one run. Versions that are not reported are None."""

    now: str | None = None
    before: str | None = None
    since: datetime | None = None  # slot of the first run with ``now`` after ``before``
    # Number of users that each version answered
    users: Mapping[str, int] = field(default_factory=dict)

    def followed_by(self, users: Mapping[str, int], slot: datetime) -> ArmModel:
        """Return the model in the next run.

        ``slot`` is the slot of this run. ``users`` is the number of its users by version.
        """
        by_version = sorted(users.items())
        ranked = sorted(by_version, key=itemgetter(1), reverse=True)[:MOST_KEPT]
        version = self.now
        if ranked and ranked[0][1] >= LEAST_MODEL_SHARE * sum(users.values()):
            version = ranked[0][0]
        if version == self.now:
            return replace(self, users=dict(ranked))
        since = slot if self.now else None
        return ArmModel(now=version, before=self.now, since=since, users=dict(ranked))


Models = Mapping[Arm, ArmModel]


def follow_models(
    last: Models | None,
    versions: Mapping[Arm, Mapping[str, int]],
    slot: datetime,
) -> Models | None:
    """Return the models in the run of the slot, given the models of the last run.

    Arms that report no version are left out. None if no arm reports one.
    """
    models = {}
    for arm in Arm:
        before = (last or {}).get(arm, ArmModel())
        model = before.followed_by(versions.get(arm, {}), slot)
        if model.users or model.now:
            models[arm] = model
    return models or None


def count_versions(
    counts: dict[str, int], versions: Iterable[tuple[object, int]]
) -> dict[str, int]:
    """Add users to the counts by version. Ignores values that name no version.

    Versions after the first `MOST_VERSIONS` are counted together, so that memory is bounded.
    """
    for value, users in versions:
        if isinstance(value, str | int | float) and (name := str(value).strip()):
            name = name[:LONGEST_VERSION]
            if name not in counts and len(counts) >= MOST_VERSIONS:
                name = "(others)"
            counts[name] = counts.get(name, 0) + users
    return counts
