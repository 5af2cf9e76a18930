"""Means of the parts by segment: what a run keeps of its split, and several runs taken together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from monitor.explaining.split import Parts, Rows
from monitor.model import ALL, PartMeans


def average_parts(parts: Parts, segments: Mapping[str, Rows], asked: Mapping[str, int]) -> tuple[PartMeans, ...]:
    """Means by segment, ``all`` first: of the rows in ``segments`` that are known; a segment that is only asked has n = 0.

    A segment missing from ``asked`` counts as many users asked as it has rows.
    """
    none = np.empty(0, dtype=np.intp)
    names = sorted({*segments, *asked}, key=lambda name: (name != ALL, name))
    return tuple(_average(parts, name, segments.get(name, none), asked.get(name)) for name in names)


def _average(parts: Parts, segment: str, rows: Rows, asked: int | None) -> PartMeans:
    known = rows[~np.isnan(parts.whole[rows])]
    means = [float(values[known].mean()) if len(known) else np.nan for values in (parts.membership, parts.order, parts.length)]
    return PartMeans(
        segment=segment,
        asked=len(rows) if asked is None else max(asked, len(rows)),
        n=len(known),
        membership=means[0],
        order=means[1],
        length=means[2],
        spread=float(parts.whole[known].std()) if len(known) else np.nan,
    )


def pool_runs(runs: Sequence[Sequence[PartMeans]]) -> tuple[PartMeans, ...]:
    """The runs' means taken together, users counting alike: what all their users as one run would have given."""
    by_segment: dict[str, list[PartMeans]] = {}
    for run in runs:
        for row in run:
            by_segment.setdefault(row.segment, []).append(row)
    return tuple(_pool(by_segment[name]) for name in sorted(by_segment, key=lambda name: (name != ALL, name)))


def _pool(rows: Sequence[PartMeans]) -> PartMeans:
    known = [row for row in rows if row.n]
    weights = np.array([row.n for row in known], dtype=np.float64)
    total = weights.sum()
    means = np.array([(row.membership, row.order, row.length) for row in known]).reshape(-1, 3)
    pooled = weights @ means / total if known else np.full(3, np.nan)
    wholes, spreads = means.sum(axis=1), np.array([row.spread for row in known])
    # Law of total variance: within the runs, and between their means.
    variance = weights @ (spreads**2 + (wholes - pooled.sum()) ** 2) / total if known else np.nan
    return PartMeans(
        segment=rows[0].segment,
        asked=sum(row.asked for row in rows),
        n=sum(row.n for row in rows),
        membership=float(pooled[0]),
        order=float(pooled[1]),
        length=float(pooled[2]),
        spread=float(np.sqrt(variance)),
    )
