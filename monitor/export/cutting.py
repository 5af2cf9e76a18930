"""Keeps a page within its bound: which segments are shown when there are too many. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from monitor.export.families import Gauges, Labels
from monitor.export.series import SERIES
from monitor.model import ALL

Slice = tuple[str, str]
"""A comparison and a segment of it."""
Sample = tuple[str, Labels]
"""A series and its labels."""

_PLACES = {name: series.labels.index("segment") for name, series in SERIES.items() if "segment" in series.labels}


def cut(gauges: Gauges, most: int) -> Mapping[str, int]:
    """Take series of segments away until at most ``most`` are left; how many, by comparison.

    Segment ``all`` stays, and so does every alert that is pending or firing; neither counts. Of the others each comparison in
    turn gets its next largest segment (by the users asked, then by name), whole or not at all, until one does not fit.
    """
    samples = _group(gauges)
    if sum(map(len, samples.values())) <= most:
        return {}
    shown, room = set(), most
    for chosen in _take_turns(gauges, samples):
        room -= len(samples[chosen])
        if room < 0:
            break
        shown.add(chosen)
    left_out: Counter[str] = Counter()
    for (comparison, segment), group in samples.items():
        if (comparison, segment) not in shown:
            left_out[comparison] += len(group)
            for name, labels in group:
                gauges.remove(name, labels)
    return left_out


def _group(gauges: Gauges) -> dict[Slice, list[Sample]]:
    """The samples that may be left out, by comparison and segment."""
    states = gauges.samples.get("alert_state", {})
    groups: dict[Slice, list[Sample]] = defaultdict(list)
    for name, place in _PLACES.items():
        for labels in gauges.samples.get(name, {}):
            is_wanted = name.startswith("alert_") and states.get(labels, 0) > 0
            if labels[place] != ALL and not is_wanted:
                groups[labels[0], labels[place]].append((name, labels))
    return groups


def _take_turns(gauges: Gauges, groups: Mapping[Slice, Sequence[Sample]]) -> Iterator[Slice]:
    users = gauges.samples.get("panel_users", {})
    queues: dict[str, list[Slice]] = defaultdict(list)
    for one in sorted(groups, key=lambda one: (-users.get(one, 0), one[1])):
        queues[one[0]].append(one)
    for turn in zip_longest(*(queues[comparison] for comparison in sorted(queues))):
        yield from filter(None, turn)
