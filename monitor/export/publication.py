"""What was last published of all comparisons, each kept as it was encoded until something new is published of it.

Where the series of segments are too many for a page, it also decides from their counts which are shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import zip_longest

from prometheus_client.metrics_core import Metric

from monitor.export.exposition import Piece
from monitor.export.families import Gauges, SampleKey
from monitor.export.run_metrics import gauges_before_runs, gauges_of_run
from monitor.export.series import SERIES
from monitor.model import ALL, LatestRun

_PLACES = {name: series.labels.index("segment") for name, series in SERIES.items() if "segment" in series.labels}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSeries:
    """What may be left out of one segment: its samples; ``users`` were asked for in it."""

    users: float
    samples: tuple[SampleKey, ...]


def removable_segments(gauges: Gauges) -> dict[str, SegmentSeries]:
    """The segments of one comparison that may be left out; ``all`` never is, nor an alert that is pending or firing."""
    states = gauges.samples.get("alert_state", {})
    groups: dict[str, list[SampleKey]] = defaultdict(list)
    for name, place in _PLACES.items():
        for labels in gauges.samples.get(name, {}):
            is_wanted = name.startswith("alert_") and states.get(labels, 0) > 0
            if labels[place] != ALL and not is_wanted:
                groups[labels[place]].append((name, labels))
    users = {labels[1]: asked for labels, asked in gauges.samples.get("panel_users", {}).items()}
    return {segment: SegmentSeries(users=users.get(segment, 0), samples=tuple(found)) for segment, found in groups.items()}


def choose_segments(found: Mapping[str, Mapping[str, SegmentSeries]], most: int | None) -> Mapping[str, frozenset[str]]:
    """The segments to show of each comparison, so that at most ``most`` series of segments are shown; all for None.

    Each comparison in turn gets its next largest segment (by users, then by name), whole or not at all, until one does not fit.
    """
    if most is None or sum(len(each.samples) for of_one in found.values() for each in of_one.values()) <= most:
        return {comparison: frozenset(of_one) for comparison, of_one in found.items()}
    shown: dict[str, set[str]] = {comparison: set() for comparison in found}
    room = most
    for comparison, segment in _take_turns(found):
        room -= len(found[comparison][segment].samples)
        if room < 0:
            break
        shown[comparison].add(segment)
    return {comparison: frozenset(segments) for comparison, segments in shown.items()}


def _take_turns(found: Mapping[str, Mapping[str, SegmentSeries]]) -> Iterator[tuple[str, str]]:
    queues = (
        [(comparison, segment) for segment in sorted(of_one, key=lambda one: (-of_one[one].users, one))]
        for comparison, of_one in sorted(found.items())
    )
    for turn in zip_longest(*queues):
        yield from filter(None, turn)


Known = Mapping[str, datetime | None]
"""Comparisons that are shown even before they have a run, with the time since when there are."""


class RunSeries:
    """The series of one comparison: of its newest run, or None before the first. Made when they are first asked for."""

    def __init__(self, comparison: str, latest: LatestRun | None, since: datetime | None) -> None:
        self.comparison, self.latest, self.since = comparison, latest, since
        self._made: tuple[frozenset[str], Piece] | None = None

    def is_of(self, latest: LatestRun | None, since: datetime | None) -> bool:
        """Whether these are still the series of this run."""
        return self.latest is latest and (latest is not None or self.since == since)

    @cached_property
    def _gauges(self) -> Gauges:
        return gauges_before_runs(self.comparison, self.since) if self.latest is None else gauges_of_run(self.latest)

    @cached_property
    def segments(self) -> Mapping[str, SegmentSeries]:
        """The segments whose series may be left out."""
        return removable_segments(self._gauges)

    def piece(self, shown: frozenset[str]) -> Piece:
        """The series with those of the ``shown`` segments."""
        made = self._made
        if made is None or made[0] != shown:
            made = self._made = (shown, Piece(lambda: self.families(shown)))
        return made[1]

    def families(self, shown: frozenset[str]) -> tuple[Metric, ...]:
        """The same as families."""
        left_out = {key for segment, found in self.segments.items() if segment not in shown for key in found.samples}
        cut = Gauges()
        cut.set("series_cut", (self.comparison,), len(left_out))
        return (*self._gauges.families(left_out), *cut.families())


class Publication:
    """The newest runs of all comparisons that have one, and the ``known`` ones that have none; it never changes.

    Of the series of segments at most ``most`` are shown, see `choose_segments`.
    """

    def __init__(self, series: Mapping[str, RunSeries] | None = None, most: int | None = None) -> None:
        self._series, self._most = series or {}, most

    def followed_by(self, latest: Sequence[LatestRun], known: Known, most: int | None) -> Publication:
        """The next publication, which takes over the series of each run that it shows already."""
        runs: dict[str, LatestRun | None] = {one.run.comparison: one for one in latest}
        series = {}
        for name, run in (runs | dict.fromkeys(known.keys() - runs)).items():
            old, since = self._series.get(name), known.get(name)
            series[name] = old if old is not None and old.is_of(run, since) else RunSeries(name, run, since)
        return Publication(series, most)

    @property
    def latest(self) -> list[LatestRun]:
        """The newest runs."""
        return [one.latest for one in self._series.values() if one.latest is not None]

    @cached_property
    def _shown(self) -> Mapping[str, frozenset[str]]:
        return choose_segments({name: one.segments for name, one in self._series.items()}, self._most)

    @property
    def pieces(self) -> list[Piece]:
        """What a page shows of each comparison."""
        return [one.piece(self._shown[name]) for name, one in self._series.items()]

    def families(self) -> Iterable[Metric]:
        """The same as families, those of each comparison by themselves."""
        return (family for name, one in self._series.items() for family in one.families(self._shown[name]))
