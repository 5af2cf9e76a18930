"""score_all: one alignment a block, whatever the metrics and the blocks."""

import numpy as np
import pytest

from kernels import reference
from metrics import known_pairs
from monitor.kernels import Alignment, alignment
from monitor.kernels.engines.choice import VARIABLE, Engine
from monitor.metrics import METRICS as REGISTRY
from monitor.metrics import Metric, parse, score_all
from monitor.metrics import scores as scoring
from monitor.model.rankings import PairBatch

PAIRS = [
    ([1, 2, 3, 4], [2, 1, 3, 9]),
    ([5], [5, 6]),
    ([], []),
    ([7, 8], []),
    ([1, 2, 3, 4], [1, 2, 3, 4]),
    ([4, 3, 2, 1], [8, 7, 6, 5]),
    ([9, 1, 2], [2]),
]
METRICS = [parse(name) for name in ("extended_tau", "rbo(p=0.8)", "overlap", "rbo(p=0.8)@2", "overlap@2", "extended_tau@100")]


def test_scores_come_by_canonical_name_in_the_order_asked_for() -> None:
    found = score_all(reference.batch(PAIRS), [parse("rbo(p=0.80)@2"), parse("overlap"), parse("rbo(p=0.8)@2")])

    assert list(found) == ["rbo(p=0.8)@2", "overlap"]
    assert all(scores.dtype == np.float64 and scores.shape == (7,) for scores in found.values())


def test_a_depth_below_every_list_changes_nothing() -> None:
    found = score_all(reference.batch(PAIRS), METRICS)

    np.testing.assert_array_equal(found["extended_tau@100"], found["extended_tau"])


@pytest.mark.parametrize("kind", REGISTRY.values(), ids=REGISTRY)
def test_a_pair_alone_scores_the_same_bits_as_among_others(kind: type[Metric]) -> None:
    rng = np.random.default_rng(5)
    rows = rng.random((60, 90)).argsort(axis=1)[:, :60].tolist()
    pairs = list(zip(rows[:30], rows[30:], strict=True))

    together = known_pairs.scores(kind(), pairs)

    np.testing.assert_array_equal([known_pairs.scores(kind(), [pair])[0] for pair in pairs], together)


@pytest.mark.parametrize("engine", list(Engine))
def test_neither_engine_nor_number_of_threads_changes_a_bit(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    rows = rng.random((3_000, 60)).argsort(axis=1)[:, :52]
    pairs = [(a[: rng.integers(0, 53)].tolist(), b.tolist()) for a, b in zip(rows[:1_500], rows[1_500:], strict=True)]
    monkeypatch.setenv(VARIABLE, Engine.NUMPY)
    expected = score_all(reference.batch(pairs), METRICS, threads=1)
    monkeypatch.setenv(VARIABLE, engine)
    monkeypatch.setattr(alignment, "BLOCK_CELLS", 1_000)

    for threads in (1, 2, 5):
        for name, scores in score_all(reference.batch(pairs), METRICS, threads=threads).items():
            np.testing.assert_array_equal(scores, expected[name], err_msg=f"{name}, {threads} threads")


def test_an_error_in_a_thread_ends_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: PairBatch) -> Alignment:
        raise MemoryError

    monkeypatch.setattr(scoring, "align", fail)
    monkeypatch.setattr(alignment, "BLOCK_CELLS", 8)

    with pytest.raises(MemoryError):
        score_all(reference.batch(PAIRS), METRICS, threads=2)
