"""Pairs per second on one core: {extended tau, RBO} and all pairwise metrics, by both engines and by other packages.

Other packages are measured on even lists only, because some are wrong for uneven lists. The benchmark also measures two
threads, text ids, the way from Arrow tables to a frame of scores on one and two cores, and the memory for ten million pairs.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import ranked_overlap
from hyper_corr import kendalltau as hyper_kendalltau
from rbo import RankingSimilarity
from scipy.stats import kendalltau

from bench import show
from kernels.reference import places
from monitor import compare_many
from monitor.measures.kernels.engines.choice import ENGINE_VARIABLE, Engine
from monitor.measures.metrics import METRICS, parse, score_all
from monitor.measures.pairing.ids import encode_ids
from monitor.model.rankings import PairBatch
from places import ROOT
from tables import cells

REPEATS = 3
P = 0.9
PAIR = (parse("extended_tau"), parse(f"rbo(p={P})"))
CATALOGUE = 100_000
CASES = [
    [int(number) for number in row]
    for row in cells("""
5     1_000_000  100_000  300
10    1_000_000  50_000   300
20    300_000    20_000   200
50    100_000    5_000    100
100   50_000     2_000    50
1000  1_000      50       5
""")
]
"""k, and the pairs for two metrics, for all metrics, and for other packages."""
TEXT_PAIRS, MEMORY_PAIRS = 1_000_000, 10_000_000


def main(_):
    """Measure in separate processes, which use one thread from their start."""
    rows = [row for what in ("threads", "speed", "memory") for row in _run_apart(what)]
    show("Medians", ("what", "rankwatch", "instead", "theirs", "ratio", "unit"), map(_shown, rows))


def _shown(row):
    what, ours, other, theirs, unit = row
    figures = (f"{theirs:,.4g}", f"{ours / theirs:,.1f}x") if theirs else ("", "")
    return what, f"{ours:,.4g}", other, *figures, unit


def _run_apart(what):
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.metrics", what],
        env={**os.environ, **limits, "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT}"},
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(done.stdout)


def measure(what):
    """The rows of one process."""
    if what == "threads":
        return [*_measure_threads(), *_measure_text(2)]
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if what == "memory":
        return list(_measure_memory())
    return [*(row for case in CASES for row in _measure(*case)), *_measure_text(1)]


def _measure(k, many, fewer, few):
    batch, uneven = draw(many, k, ragged=False), draw(many, k, ragged=True)
    part = batch.take(slice(0, fewer))
    lists = [
        (a.tolist(), b.tolist())
        for a, b in zip(batch.baseline[:few], batch.candidate[:few], strict=True)
    ]
    everything = tuple(parse(name) for name, kind in METRICS.items() if kind.need is None)
    _check(batch.take(slice(0, few)), lists)
    named = {
        f"extended tau + RBO, k={k}": (batch, PAIR),
        f"extended tau + RBO, 0 to {k} items": (uneven, PAIR),
        f"all {len(everything)} pairwise measures, k={k}": (part, everything),
    }
    engines = (Engine.NUMBA, Engine.NUMPY)
    works = [(len(of[0]), _score(engine, *of)) for of in named.values() for engine in engines]
    rates = _medians(*works)
    for number, name in enumerate(named):
        yield (name, rates[2 * number], "our numpy engine", rates[2 * number + 1], "pairs/s")
    for other, rate in _measure_others(lists):
        yield (f"extended tau + RBO, k={k}", rates[0], other, rate, "pairs/s")


def _score(engine, batch, metrics, threads=1):
    def work():
        os.environ[ENGINE_VARIABLE] = engine
        return score_all(batch, metrics, threads=threads)

    return work


def _measure_others(lists):
    ranks = [_padded_ranks(a, b) for a, b in lists]
    works = {
        "pandas + scipy, user by user": lambda: [by_pandas(a, b) for a, b in lists],
        "scipy kendalltau alone, ready ranks": lambda: [kendalltau(a, b) for a, b in ranks],
        "hyper-corr kendalltau alone, ready ranks": lambda: [
            hyper_kendalltau(a, b, pvals=False) for a, b in ranks
        ],
        "rbo, RBO alone": lambda: [RankingSimilarity(a, b).rbo_ext(p=P) for a, b in lists],
        "ranked-overlap, RBO alone": lambda: [ranked_overlap.rbo(a, b, p=P) for a, b in lists],
    }
    yield from zip(works, _medians(*((len(lists), work) for work in works.values())), strict=True)


def _measure_text(cores):
    """Text ids from Arrow: coding and scoring compared with scoring alone, and `compare_many` compared with integer ids."""
    batch = draw(TEXT_PAIRS, 10, ragged=False)
    os.environ[ENGINE_VARIABLE] = Engine.NUMBA
    arms = (batch.baseline, batch.candidate)
    names = pa.array([f"item-{code}" for code in range(CATALOGUE)])
    texts = [names.take(pa.array(codes.ravel())) for codes in arms]
    text_lists = [_as_arrow(codes, items) for codes, items in zip(arms, texts, strict=True)]
    integer_lists = [_as_arrow(codes, pa.array(codes.ravel())) for codes in arms]
    columns = [pd.array(items, dtype="str") for items in texts]

    def code_and_score():
        coded, _ = encode_ids(*columns)
        ours, theirs = (codes.astype(np.int32, copy=False).reshape(-1, 10) for codes in coded)
        return score_all(replace(batch, baseline=ours, candidate=theirs), PAIR, threads=cores)

    works = (
        code_and_score,
        _score(Engine.NUMBA, batch, PAIR, cores),
        lambda: compare_many(text_lists[0], text_lists[1], metrics=PAIR),
        lambda: compare_many(integer_lists[0], integer_lists[1], metrics=PAIR),
    )
    coded, scored, by_text, by_integer = _medians(*((TEXT_PAIRS, work) for work in works))
    where = f"k=10, cores: {cores}"
    yield (f"coding of text + scoring, {where}", coded, "scoring alone", scored, "pairs/s")
    of_text = f"compare_many on Arrow lists of text, {where}"
    yield (of_text, by_text, "lists of integers", by_integer, "pairs/s")


def _as_arrow(codes, items):
    offsets = np.arange(0, codes.size + 1, codes.shape[1], dtype=np.int32)
    return pa.table(
        {"user": np.arange(len(codes)), "items": pa.ListArray.from_arrays(offsets, items)}
    )


def _measure_threads():
    batch = draw(1_000_000, 10, ragged=False)
    for engine in (Engine.NUMBA, Engine.NUMPY):
        two, one = _medians(
            *((len(batch), _score(engine, batch, PAIR, threads)) for threads in (2, 1))
        )
        yield (f"two threads, {engine}, k=10", two, "one thread", one, "pairs/s")


def _measure_memory():
    some = draw(100_000, 10, ragged=False)
    many = some.take(np.tile(np.arange(len(some)), MEMORY_PAIRS // len(some)))
    os.environ[ENGINE_VARIABLE] = Engine.NUMBA
    score_all(many, PAIR)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    yield (f"peak memory of {MEMORY_PAIRS:,} pairs, k=10", peak, "", 0.0, "GiB")


def draw(n, k, *, ragged):
    """Candidates that have about half of the baseline's items, at other places."""
    rng = np.random.default_rng(7)
    start = rng.integers(0, CATALOGUE, (n, 1))
    stride = CATALOGUE // (2 * k)

    def lists():
        return (
            (start + stride * rng.random((n, 2 * k)).argsort(axis=1)[:, :k]) % CATALOGUE
        ).astype(np.int32)

    def lengths(codes):
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


def by_pandas(a, b):
    """The recipe of the literature: a user's ranks in a frame with absent items last, their scaled tau-b, and RBO by sets."""
    k = len(a)
    frame = pd.DataFrame(
        {"a": pd.Series(range(k), index=a), "b": pd.Series(range(k), index=b)}
    ).fillna(k)
    dummies = pd.DataFrame(k, index=range(2 * k - len(frame)), columns=["a", "b"])
    ranks = pd.concat([frame, dummies.astype("float64")])
    low = -2 * k / (3 * k - 1)
    tau = 2 * (float(kendalltau(ranks["a"], ranks["b"]).statistic) - low) / (1 - low) - 1
    return tau, _rbo_by_sets(a, b)


def _rbo_by_sets(a, b):
    seen_a, seen_b, overlap, total = set(), set(), 0, 0.0
    for depth, (x, y) in enumerate(zip(a, b, strict=True), start=1):
        overlap += (x == y) + (x in seen_b) + (y in seen_a)
        seen_a.add(x)
        seen_b.add(y)
        total += overlap / depth * P**depth
    return (1 - P) / P * total + overlap / len(a) * P ** len(a)


def _padded_ranks(a, b):
    """Both lists' ranks of a universe of 2 k items. Absent items are tied last."""
    universe = [*dict.fromkeys([*a, *b])]
    absent = [len(a)] * (2 * len(a) - len(universe))
    return [np.array([*ranks, *absent], dtype=np.float64) for ranks in places(universe, a, b)]


def _check(batch, lists):
    """Check the numbers, because speed counts only for right numbers."""
    expected = np.array([by_pandas(a, b) for a, b in lists]).T
    for engine in (Engine.NUMBA, Engine.NUMPY):
        os.environ[ENGINE_VARIABLE] = engine
        np.testing.assert_allclose(
            list(score_all(batch, PAIR).values()), expected, rtol=0, atol=1e-12
        )


def _medians(*works):
    """Pairs per second of each package. They take turns, so that a busy machine slows all of them down.

    The first turn only warms up.
    """
    rates: list[list[float]] = [[] for _ in works]
    for turn in range(REPEATS + 1):
        for (pairs, work), found in zip(works, rates, strict=True):
            start = time.perf_counter()
            work()
            if turn:
                found.append(pairs / (time.perf_counter() - start))
    return [statistics.median(found) for found in rates]


if __name__ == "__main__":
    json.dump(measure(sys.argv[1]), sys.stdout)
