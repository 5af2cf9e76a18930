"""Slow and obvious: measures of relevance from their definitions, for one list and a dict of one user's grades."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kernels import reference
from monitor.measures.kernels import Alignment, align
from monitor.measures.kernels.labels import place_grades
from monitor.model.arrays import Codes
from monitor.model.rankings import Labels, PairBatch

Grades = Mapping[int, float]
Graded = Sequence[tuple[int, float]]


def gain_of(grade: float, gain: str) -> float:
    return grade if gain == "linear" else 2**grade - 1


def dcg_of(grades: Sequence[float], gain: str) -> float:
    return sum(
        gain_of(grade, gain) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1)
    )


def cg(ranking: Sequence[int], known: Grades) -> float:
    return sum(known.get(item, 0) for item in ranking)


def dcg(ranking: Sequence[int], known: Grades, gain: str) -> float:
    return dcg_of([known.get(item, 0) for item in ranking], gain)


def ndcg(ranking: Sequence[int], known: Grades, k: int, gain: str) -> float:
    return dcg(ranking, known, gain) / dcg_of(sorted(known.values(), reverse=True)[:k], gain)


def relevant(known: Grades) -> set[int]:
    return {item for item, grade in known.items() if grade > 0}


def recall(ranking: Sequence[int], known: Grades) -> float:
    return len(relevant(known) & set(ranking)) / len(relevant(known))


def reciprocal_rank(ranking: Sequence[int], known: Grades) -> float:
    return next(
        (1 / rank for rank, item in enumerate(ranking, start=1) if item in relevant(known)), 0.0
    )


def average_precision(ranking: Sequence[int], known: Grades) -> float:
    total = 0.0
    for rank, item in enumerate(ranking, start=1):
        if item in relevant(known):
            total += len(relevant(known) & set(ranking[:rank])) / rank
    return total / len(relevant(known))


def ndcg_vs_baseline(baseline: Sequence[int], candidate: Sequence[int], gain: str) -> float:
    if not baseline or not candidate:
        return 0.0 if baseline or candidate else math.nan
    known = {item: len(baseline) - place for place, item in enumerate(baseline)}
    return ndcg(candidate, known, len(baseline), gain)


def label(arms: tuple[Codes, Codes], rows: Sequence[int], table: Sequence[Graded]) -> Labels:
    """Labels at the places of both arms' lists, from the grades of each pair's row of the table."""
    graded = [pair for row in table for pair in row]
    return place_grades(
        arms[0],
        arms[1],
        np.array(rows, dtype=np.intp),
        np.cumsum([0, *map(len, table)]),
        np.array([item for item, _ in graded], dtype=np.int32),
        np.array([grade for _, grade in graded], dtype=np.float64),
    )


def labelled(
    pairs: Sequence[reference.Pair], known: Sequence[Grades], k: int | None = None
) -> PairBatch:
    """The pairs' batch with labels from each user's grades."""
    plain = reference.batch(pairs, k)
    table = [[*grades.items()] for grades in known]
    return replace(plain, labels=label((plain.baseline, plain.candidate), range(len(pairs)), table))


def aligned(
    pairs: Sequence[reference.Pair], known: Sequence[Grades], k: int | None = None
) -> Alignment:
    return align(labelled(pairs, known, k))
