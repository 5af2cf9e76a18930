"""Machine code against numpy, bit by bit, at the lengths where ways and types change; texts as codes, as Arrow codes them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.conftest import limit_all_pairs
from monitor.kernels import Alignment, align
from monitor.kernels.engines.choice import MAX_K, VARIABLE, load
from monitor.model.rankings import PairBatch
from monitor.pairing.ids import _encode_texts

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
    monkeypatch.setattr("monitor.kernels.engines.compiled_pairs.PAIRS_MAX_K", longest)
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


ODD = st.sampled_from(["", "\0", "a", "a\0", "\0a", "é", "e\u0301", "漢字", "x" * 100_000])
ALIKE = st.integers(0, 40).map("x".__mul__)
TEXTS = st.lists(st.text(max_size=40) | st.text("ab", max_size=20) | ALIKE | ODD, max_size=20)
SHAPES = ["{}", "item-{}", "{:015}", "{:016}", "{:0100}", "same-first-16-bytes-{}", "{}" + "x" * 30]
MANY = np.random.default_rng(5).integers(0, 30_000, 60_000)


def coded(texts: pa.ChunkedArray) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "numba")
        return _encode_texts(pd.Series(pd.arrays.ArrowExtensionArray(texts)).astype("str").array)


def assert_coded(texts: pa.ChunkedArray) -> None:
    codes, distinct = coded(texts)

    known = texts.combine_chunks().dictionary_encode()
    assert codes.tolist() == known.indices.to_pylist()
    assert distinct.tolist() == known.dictionary.to_pylist()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@given(first=TEXTS, more=st.lists(TEXTS, max_size=2), skipped=st.integers(0, 5))
def test_codes_are_arrows(kind: Any, first: list[str], more: list[list[str]], skipped: int) -> None:
    assert_coded(pa.chunked_array([pa.array(part, kind) for part in (["skipped"] * 5 + ["a", *first], *more)])[skipped:])


@pytest.mark.parametrize("shape", SHAPES)
def test_very_many_are_coded_through_every_growth_of_the_table(shape: str) -> None:
    assert_coded(pa.chunked_array([pa.array(map(shape.format, MANY.tolist()), pa.large_string())]))


def test_texts_that_differ_in_one_byte_or_in_length_differ() -> None:
    for length in range(40):
        others = ["x" * at + "y" + "x" * (length - at - 1) for at in range(length)]
        assert_coded(pa.chunked_array([["x" * length, *others, "x" * length + "\0", *reversed(others), "x" * length]]))


def test_offsets_may_lie_at_any_address() -> None:
    aligned = pa.array(["b", "a", "b"], pa.large_string()).buffers()
    offsets = pa.py_buffer(b"." + aligned[1].to_pybytes()).slice(1)

    assert_coded(pa.chunked_array([pa.Array.from_buffers(pa.large_string(), 3, [None, offsets, aligned[2]])]))


@pytest.mark.parametrize("texts", [[], ["a", None]], ids=["none", "a missing one"])
def test_what_is_no_text_is_left_to_pandas(texts: list[Any]) -> None:
    assert coded(pa.chunked_array([pa.array(texts, pa.large_string())])) is None


@pytest.mark.parametrize(("length", "is_told_apart"), [(15, True), (16, False)])
def test_texts_whose_hashes_all_meet_are_told_apart_or_left_to_arrow(length: int, is_told_apart: bool) -> None:
    data = np.frombuffer(b"".join(b"%0*d" % (length, number % 3_000) for number in range(6_000)), np.uint8)

    found = load().code_texts(np.arange(0, len(data) + 1, length), data, seed=0)

    assert (found is not None) == is_told_apart
    assert found is None or found[0].tolist() == [*range(3_000), *range(3_000)]
