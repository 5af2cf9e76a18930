"""Machine code against numpy, bit by bit: every way, at the lengths where ways and types change."""

import numpy as np
import numpy.typing as npt
import pytest

from kernels.conftest import limit_all_pairs
from monitor.kernels import Alignment, align
from monitor.kernels.engines import compiled_pairs
from monitor.kernels.engines.choice import MAX_K, VARIABLE
from monitor.model.rankings import PairBatch

pytestmark = pytest.mark.usefixtures("machine_code")

EDGES = (1, 2, 3, 4, 5, 48, 49, 127, 128, 255, 256, 257, 700)
TOPS = (0, 2**16 - 60, 2**31 - 2_000)


def draw(n: int, k: int, *, top: int, ragged: bool, seed: int = 0) -> PairBatch:
    """Codes from ``top`` on of a catalogue so small that lists share much."""
    rng = np.random.default_rng(seed)

    def arm() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        codes = (top + rng.random((n, 2 * k)).argsort(axis=1)[:, :k]).astype(np.int32)
        lengths = rng.integers(0, k + 1, n) if ragged else np.full(n, k)
        codes[np.arange(k) >= lengths[:, None]] = -1
        return codes, lengths.astype(np.int32)

    (baseline, a), (candidate, b) = arm(), arm()
    return PairBatch(baseline=baseline, candidate=candidate, baseline_lengths=a, candidate_lengths=b)


def by_engine(batch: PairBatch, monkeypatch: pytest.MonkeyPatch) -> tuple[Alignment, Alignment]:
    alignments = []
    for engine in ("numpy", "numba"):
        monkeypatch.setenv(VARIABLE, engine)
        alignments.append(align(batch))
    return alignments[0], alignments[1]


def assert_same(one: Alignment, other: Alignment) -> None:
    for name in ("positions", "inversions", "agreement", "common", "position_sums", "candidate_positions", "short", "long"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("k", EDGES)
def test_both_engines_find_the_same(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for top in TOPS:
        for ragged in (False, True):
            assert_same(*by_engine(draw(150, k, top=top, ragged=ragged), monkeypatch))


@pytest.mark.parametrize("longest", [0, 255])
@pytest.mark.parametrize("k", [1, 2, 10, 49, 200, 255])
def test_all_pairs_and_hashing_or_sorting_find_the_same(k: int, longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_pairs, "PAIRS_MAX_K", longest)
    limit_all_pairs(monkeypatch, 255 - longest)

    assert_same(*by_engine(draw(130, k, top=5, ragged=True), monkeypatch))


@pytest.mark.parametrize("k", [10, 60, 300])
def test_the_last_tile_may_be_of_any_size(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (0, 1, 63, 64, 65, 127, 128, 129):
        assert_same(*by_engine(draw(n, k, top=0, ragged=True), monkeypatch))


@pytest.mark.parametrize("k", [49, 300, MAX_K])
def test_items_whose_hashes_all_meet_are_still_found(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    slots = 1 << max(12, (32 * k - 1).bit_length())
    inverse = pow(2654435769, -1, 2**32)
    same_slot = np.array([h for h in (i * inverse % 2**32 for i in range(2**32 // slots)) if h < 2**31], dtype=np.int32)
    count = min(k, len(same_slot))
    lists = np.stack([rng.permutation(same_slot)[:count] for _ in range(2)])
    lengths = np.full(1, count, dtype=np.int32)
    batch = PairBatch(baseline=lists[:1], candidate=lists[1:], baseline_lengths=lengths, candidate_lengths=lengths)

    assert_same(*by_engine(batch, monkeypatch))


@pytest.mark.parametrize("k", [MAX_K, MAX_K + 1])
def test_the_longest_lists_reversed_overflow_nothing(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    up = np.arange(k, dtype=np.int32)[None]
    lengths = np.full(1, k, dtype=np.int32)
    batch = PairBatch(baseline=up, candidate=up[:, ::-1], baseline_lengths=lengths, candidate_lengths=lengths)

    one, other = by_engine(batch, monkeypatch)

    assert_same(one, other)
    assert other.inversions.tolist() == [k * (k - 1) // 2]


@pytest.mark.parametrize("depth", [1, 7, 48, 49, 255, 256, 299])
def test_a_cut_is_the_alignment_of_cut_lists(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = draw(40, 300, top=0, ragged=True)
    short = PairBatch(
        baseline=batch.baseline[:, :depth],
        candidate=batch.candidate[:, :depth],
        baseline_lengths=np.minimum(batch.baseline_lengths, depth),
        candidate_lengths=np.minimum(batch.candidate_lengths, depth),
    )
    for engine in ("numpy", "numba"):
        monkeypatch.setenv(VARIABLE, engine)

        assert_same(align(batch).cut(depth), align(short))


@pytest.mark.parametrize("n", [60, 600])
@pytest.mark.parametrize("k", [3, 49, 300])
def test_sums_by_depth_are_the_same_to_the_last_bit_for_any_weights(n: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = by_engine(draw(n, k, top=0, ragged=True), monkeypatch)
    for weights in (np.random.default_rng(2).standard_normal(one.k), np.zeros(one.k)):
        sums = []
        for engine, alignment in (("numpy", one), ("numba", other)):
            monkeypatch.setenv(VARIABLE, engine)
            sums.append(alignment.sum_by_depth(weights).view(np.int64))

        np.testing.assert_array_equal(sums[0], sums[1])
