"""What was last published of all comparisons, each kept as it was encoded until something new is published of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from prometheus_client.metrics_core import Metric

from monitor.export.exposition import Piece
from monitor.export.families import Gauges
from monitor.export.run_metrics import gauges_before_runs, gauges_of_run
from monitor.export.segment_limit import SegmentSeries, choose_segments, removable_segments
from monitor.model import LatestRun

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
