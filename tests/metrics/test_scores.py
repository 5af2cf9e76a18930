"""score_all: one alignment a block, whatever the metrics and the blocks."""

import numpy as np
import pytest

from kernels import reference
from metrics import known_pairs
from monitor.kernels import Alignment, alignment
from monitor.kernels.engines.choice import VARIABLE
from monitor.metrics import METRICS as REGISTRY
from monitor.metrics import parse, score_all
from monitor.metrics import scores as scoring
from monitor.model.rankings import PairBatch

PAIRS = reference.draw(14, 1, even=False)
METRICS = [
    parse(name)
    for name in (
        "extended_tau",
        "rbo(p=0.8)",
        "overlap",
        "rbo(p=0.8)@2",
        "overlap@2",
        "extended_tau@100",
    )
]


def test_scores_come_by_canonical_name_in_the_order_asked_for():
    found = score_all(
        reference.batch(PAIRS), [parse("rbo(p=0.80)@2"), parse("overlap"), parse("rbo(p=0.8)@2")]
    )

    assert list(found) == ["rbo(p=0.8)@2", "overlap"]
    assert all(scores.dtype == np.float64 and scores.shape == (14,) for scores in found.values())


def test_a_pair_alone_scores_the_same_bits_as_among_others():
    rng = np.random.default_rng(5)
    rows = rng.random((20, 90)).argsort(axis=1)[:, :60].tolist()
    pairs, every = (
        list(zip(rows[:10], rows[10:], strict=True)),
        [kind() for kind in REGISTRY.values()],
    )
    together = score_all(known_pairs.batch(pairs), every)

    for row, pair in enumerate(pairs):
        for name, scores in score_all(known_pairs.batch([pair]), every).items():
            np.testing.assert_array_equal(scores, together[name][[row]], err_msg=name)


@pytest.mark.parametrize(
    "engine",
    ["numpy", *(pytest.param(each, marks=pytest.mark.integration) for each in ("auto", "numba"))],
)
def test_neither_engine_nor_number_of_threads_changes_a_bit(engine, monkeypatch):
    batch = reference.batch(reference.draw(300, 4, even=False, lengths=(52,)))
    monkeypatch.setenv(VARIABLE, "numpy")
    expected = score_all(batch, METRICS, threads=1)
    monkeypatch.setenv(VARIABLE, engine)
    monkeypatch.setattr(alignment, "BLOCK_CELLS", 1_000)

    for threads in (1, 2, 5):
        for name, scores in score_all(batch, METRICS, threads=threads).items():
            np.testing.assert_array_equal(
                scores, expected[name], err_msg=f"{name}, {threads} threads"
            )


def test_an_error_in_a_thread_ends_the_whole(monkeypatch):
    def fail(_: PairBatch) -> Alignment:
        raise MemoryError

    monkeypatch.setattr(scoring, "align", fail)
    monkeypatch.setattr(alignment, "BLOCK_CELLS", 8)

    with pytest.raises(MemoryError):
        score_all(reference.batch(PAIRS), METRICS, threads=2)
