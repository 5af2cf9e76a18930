"""Slow and obvious: measures of relevance from their definitions, for one list and a dict of one user's grades."""

import math
from dataclasses import replace

import numpy as np

from kernels import reference
from monitor.measures.kernels import align
from monitor.measures.kernels.labels import place_grades


def dcg_of(grades, gain):
    return sum(
        (grade if gain == "linear" else 2**grade - 1) / math.log2(rank + 1)
        for rank, grade in enumerate(grades, start=1)
    )


def cg(ranking, known):
    return sum(known.get(item, 0) for item in ranking)


def dcg(ranking, known, gain):
    return dcg_of([known.get(item, 0) for item in ranking], gain)


def ndcg(ranking, known, k, gain):
    return dcg(ranking, known, gain) / dcg_of(sorted(known.values(), reverse=True)[:k], gain)


def relevant(known):
    return {item for item, grade in known.items() if grade > 0}


def recall(ranking, known):
    return len(relevant(known) & set(ranking)) / len(relevant(known))


def reciprocal_rank(ranking, known):
    return next(
        (1 / rank for rank, item in enumerate(ranking, start=1) if item in relevant(known)), 0.0
    )


def average_precision(ranking, known):
    total = 0.0
    for rank, item in enumerate(ranking, start=1):
        if item in relevant(known):
            total += len(relevant(known) & set(ranking[:rank])) / rank
    return total / len(relevant(known))


def ndcg_vs_baseline(baseline, candidate, gain):
    if not baseline or not candidate:
        return 0.0 if baseline or candidate else math.nan
    known = {item: len(baseline) - place for place, item in enumerate(baseline)}
    return ndcg(candidate, known, len(baseline), gain)


def label(arms, rows, table):
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


def labelled(pairs, known, k=None):
    """The pairs' batch with labels from each user's grades."""
    plain = reference.batch(pairs, k)
    table = [[*grades.items()] for grades in known]
    return replace(plain, labels=label((plain.baseline, plain.candidate), range(len(pairs)), table))


def aligned(pairs, known, k=None):
    return align(labelled(pairs, known, k))
