"""Which segments a page shows when their series are too many for it. Decided from counts alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from monitor.export.families import Gauges, SampleKey
from monitor.export.series import SERIES
from monitor.model import ALL

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
