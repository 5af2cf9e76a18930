"""Pairs a second of {extended tau + RBO} on one core, beside scipy pair by pair and the rbo package."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rbo import RankingSimilarity
from scipy.stats import kendalltau

from monitor.metrics import parse, score_all
from monitor.model import PairBatch

REPEATS = 5
P = 0.9
METRICS = (parse("extended_tau"), parse(f"rbo(p={P})"))
CATALOGUE = 100_000
CASES = ((10, 1_000_000, 400), (100, 50_000, 40))
"""k, pairs for us, pairs for the others."""

Row = tuple[str, float, str, float, str]


def run() -> Iterator[Row]:
    """Measure in a process of its own, held to one core and one thread from its start."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "tests.bench.metrics"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, env={**os.environ, **limits}, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    for row in json.loads(done.stdout):
        yield tuple(row)


def main() -> list[Row]:
    """One row a comparison, all in this process and on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return [row for k, many, few in CASES for row in _measure(k, many, few)]


def _measure(k: int, many: int, few: int) -> Iterator[Row]:
    batch, uneven = draw(many, k, ragged=False), draw(many, k, ragged=True)
    lists = [(a.tolist(), b.tolist()) for a, b in zip(batch.baseline[:few], batch.candidate[:few], strict=True)]
    _check(batch, lists)
    ours, by_scipy, by_rbo, ours_uneven = _medians(
        (many, lambda: score_all(batch, METRICS)),
        (few, lambda: [by_definition(a, b) for a, b in lists]),
        (few, lambda: [RankingSimilarity(a, b).rbo_ext(p=P) for a, b in lists]),
        (many, lambda: score_all(uneven, METRICS)),
    )
    yield (f"extended tau + RBO, k={k}", ours, "scipy kendalltau + RBO in Python", by_scipy, "pairs/s")
    yield (f"extended tau + RBO, k={k}", ours, "rbo package (RBO alone)", by_rbo, "pairs/s")
    yield (f"extended tau + RBO, lists of 0 to {k} items", ours_uneven, "", 0.0, "pairs/s")


def draw(n: int, k: int, *, ragged: bool) -> PairBatch:
    """Candidates that keep about half of the baseline's items, elsewhere in the list."""
    rng = np.random.default_rng(7)
    start = rng.integers(0, CATALOGUE, (n, 1))
    stride = CATALOGUE // (2 * k)

    def lists() -> npt.NDArray[np.int32]:
        return ((start + stride * rng.random((n, 2 * k)).argsort(axis=1)[:, :k]) % CATALOGUE).astype(np.int32)

    def lengths(codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        kept = rng.integers(0, k + 1, n) if ragged else np.full(n, k)
        codes[np.arange(k) >= kept[:, None]] = -1
        return kept.astype(np.int32)

    baseline, candidate = lists(), lists()
    return PairBatch(
        baseline=baseline,
        candidate=candidate,
        baseline_lengths=lengths(baseline),
        candidate_lengths=lengths(candidate),
    )


def by_definition(a: list[int], b: list[int]) -> tuple[float, float]:
    """What a careful user writes today: tau-b on padded ranks, scaled, and RBO by sets that grow."""
    k = len(a)
    universe = list(dict.fromkeys([*a, *b]))
    ranks = [[place.get(item, k) for item in universe] + [k] * (2 * k - len(universe)) for place in map(_places, (a, b))]
    low = -2 * k / (3 * k - 1)
    tau = 2 * (kendalltau(*ranks).statistic - low) / (1 - low) - 1
    seen_a, seen_b, overlap, total = set(), set(), 0, 0.0
    for depth, (x, y) in enumerate(zip(a, b, strict=True), start=1):
        overlap += (x == y) + (x in seen_b) + (y in seen_a)
        seen_a.add(x)
        seen_b.add(y)
        total += overlap / depth * P**depth
    return tau, (1 - P) / P * total + overlap / k * P**k


def _places(ranking: list[int]) -> dict[int, int]:
    return {item: rank for rank, item in enumerate(ranking)}


def _check(batch: PairBatch, lists: list[tuple[list[int], list[int]]]) -> None:
    """Speed counts only for the right numbers."""
    expected = np.array([by_definition(a, b) for a, b in lists]).T
    found = [scores[: len(lists)] for scores in score_all(batch, METRICS).values()]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def _medians(*works: tuple[int, Callable[[], object]]) -> list[float]:
    """Pairs a second of each, taking turns, so that a busy machine slows all alike."""
    rates: list[list[float]] = [[] for _ in works]
    for _ in range(REPEATS):
        for (pairs, work), found in zip(works, rates, strict=True):
            start = time.perf_counter()
            work()
            found.append(pairs / (time.perf_counter() - start))
    return [statistics.median(found) for found in rates]


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
