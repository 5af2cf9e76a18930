"""Finds active silences that match no alert."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from monitor.alerts.unmatched_names import find_unmatched_silences, may_concern
from monitor.model.alerts import AlertState
from monitor.model.notifications import Silence
from monitor.model.ports import Clock
from monitor.model.rules import Comparison
from monitor.model.run_reasons import UnmatchedName

if TYPE_CHECKING:  # because importing SQLAlchemy is slow
    from monitor.storage import SqlStore

_CHECKED_AGAIN_S = 600.0
"""Reading the 132,000 alerts of 500 comparisons takes a second of CPU time, so not each run does."""


class SilenceCheck:
    """Compares active silences with stored alerts. Threads may share it."""

    def __init__(self, store: "SqlStore", clock: Clock) -> None:
        self._store = store
        self._clock = clock
        # For each silence, when it was last compared with the alerts of all comparisons, and the
        # result.
        self._checked: dict[int, tuple[float, tuple[UnmatchedName, ...]]] = {}

    def unmatched(
        self,
        comparison: Comparison,
        states: Sequence[AlertState],
        comparisons: Mapping[str, Comparison],
    ) -> tuple[UnmatchedName, ...]:
        """Return active silences that match no alert but seem meant for this comparison.

        ``states`` are the states of the comparison's alerts. ``comparisons`` are all comparisons.
        """
        name = comparison.name
        unmatched: list[UnmatchedName] = []
        for silence in self._store.alerts.silences(ending_after=self._clock.now()):
            if may_concern(silence, name) and find_unmatched_silences(
                [silence], states, {name: comparison}
            ):
                unmatched += self._unmatched_by_all(silence, comparisons)
        return tuple(unmatched)

    def _unmatched_by_all(
        self, silence: Silence, comparisons: Mapping[str, Comparison]
    ) -> tuple[UnmatchedName, ...]:
        """Compare the silence with the alerts of all comparisons, unless this was done lately."""
        now_s = self._clock.monotonic()
        checked_s, unmatched = self._checked.get(silence.id, (-inf, ()))
        if now_s - checked_s >= _CHECKED_AGAIN_S:
            judged_alerts = self._store.alerts.names()
            unmatched = find_unmatched_silences([silence], judged_alerts, comparisons)
            self._checked[silence.id] = now_s, unmatched
        return unmatched
