"""Which engine is used, and when; machine code finds what numpy and Arrow find, bit by bit."""

import mmap
from collections.abc import Callable, Iterator
from itertools import count
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference
from kernels.conftest import constants
from monitor.errors import ConfigError
from monitor.kernels import Alignment, align
from monitor.kernels.engines import choice
from monitor.kernels.engines.choice import MAX_K, VARIABLE, Engines
from monitor.model.rankings import PairBatch
from monitor.pairing.ids import _encode_texts


class Child:
    """Ends when it is told to."""

    ended: int | None = None

    def poll(self) -> int | None:
        return self.ended


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    """Nobody asks for an engine.

    Children are counted instead of started, and nothing is compiled.
    """
    started: list[Child] = []

    def start() -> Child:
        started.append(Child())
        return started[-1]

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(choice, "_start_compiling", start)
    monkeypatch.setattr(choice, "load", lambda: choice)
    return started


def test_little_work_and_work_of_earlier_periods_are_numpys_and_start_nothing(children):
    for work, period_s in ((300, 0.0), (600, choice.PERIOD_S)):
        process = Engines(worth_loading=1_000, monotonic=count(0.0, period_s).__next__)

        assert [process.compiled(work) for _ in range(3)] == [None] * 3
        assert not children


@pytest.mark.parametrize(("code", "engine"), [(0, choice), (1, None)])
def test_much_work_starts_one_child_and_numpy_goes_on_until_it_ends_and_for_good_if_it_fails(
    children, code, engine
):
    process = Engines(worth_loading=1_000)

    assert [process.compiled(600) for _ in range(5)] == [None] * 5
    children[0].ended = code
    assert [process.compiled(1) for _ in range(3)] == [engine] * 3
    assert len(children) == 1


def test_an_engine_asked_for_is_there_at_once_however_much_there_is_to_do(children, monkeypatch):
    for engine, expected in (("numpy", None), ("numba", choice)):
        monkeypatch.setenv(VARIABLE, engine)
        assert [Engines(worth_loading=0).compiled(work) for work in (0, 10**15)] == [expected] * 2
    assert not children
    monkeypatch.setenv(VARIABLE, "numbat")
    with pytest.raises(
        ConfigError, match=r"^RANKWATCH_ENGINE=numbat: set it to one of auto, numpy, numba$"
    ):
        Engines().compiled()


def forbid_machine_code(*_: object, **__: object) -> None:
    raise PermissionError


@pytest.mark.parametrize(
    ("place", "obstacle", "message"),
    [
        (mmap, ("mmap", forbid_machine_code), "forbids machine code"),
        (choice, ("find_spec", lambda _: None), r"install rankwatch\[fast\]"),
    ],
)
def test_where_there_can_be_no_machine_code_numba_is_an_error_and_auto_is_numpy(
    place, obstacle, message, monkeypatch
):
    monkeypatch.setattr(place, *obstacle)

    monkeypatch.setenv(VARIABLE, "auto")
    process = Engines(worth_loading=0)
    assert [process.compiled(1) for _ in range(2)] == [None, None]
    monkeypatch.setenv(VARIABLE, "numba")
    with pytest.raises(ConfigError, match=message):
        Engines().compiled()


@pytest.mark.integration
def test_the_child_fills_the_cache_and_ends_well():
    child = choice._start_compiling()

    assert child is not None
    assert child.wait(100) == 0


def draw(n: int, k: int, *, top: int = 0, even: bool = False) -> PairBatch:
    """Codes from ``top`` on."""
    return reference.batch(reference.draw(n, 0, even=even, lengths=(k,), tops=(top,)), k)


Engine = Callable[[], Iterator[None]]


@pytest.fixture
def engines(machine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An iterator that sets numpy first, then machine code."""

    def set_each() -> Iterator[None]:
        for module in (None, machine):
            monkeypatch.setattr(choice, "compiled", lambda *_, module=module: module)
            yield

    return set_each


def find_the_same(batch: PairBatch, engines: Engine) -> tuple[Alignment, Alignment]:
    one, other = [align(batch) for _ in engines()]
    assert_same(one, other)
    return one, other


def assert_same(one: Alignment, other: Alignment) -> None:
    for name in [
        "positions",
        "inversions",
        "agreement",
        "common",
        "position_sums",
        "candidate_positions",
        "short",
        "long",
    ]:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 48, 49, 255, 256, 257])
def test_both_engines_find_the_same(k, engines, machine):
    tile = constants(machine.find)["HASH_TILE"]
    for n, top, even in (
        (0, 0, True),
        (1, 0, True),
        (tile - 1, 0, False),
        (tile, 2**16 - 60, False),
    ):
        find_the_same(draw(n, k, top=top, even=even), engines)
    find_the_same(draw(2 * tile + 1, k, top=2**31 - 2_000), engines)


@pytest.mark.parametrize("k", [49, 300])
def test_items_whose_hashes_all_meet_are_still_found(k, engines):
    inverse = pow(2654435769, -1, 2**32)
    same_slot = [code for code in (i * inverse % 2**32 for i in range(4 * k)) if code < 2**31][:k]

    find_the_same(reference.batch([(same_slot, same_slot[::-1])]), engines)


@pytest.mark.parametrize("k", [MAX_K, MAX_K + 1])
def test_the_longest_lists_reversed_overflow_nothing(k, engines):
    _, found = find_the_same(reference.batch([(range(k), range(k)[::-1])]), engines)

    assert found.inversions.tolist() == [k * (k - 1) // 2]


@pytest.mark.parametrize("depth", [1, 48, 49, 255, 256, 299])
def test_a_cut_is_the_alignment_of_cut_lists(depth, engines):
    pairs = reference.draw(5, 0, even=False, lengths=(300,))
    batch, tops = (
        reference.batch(pairs),
        reference.batch([(a[:depth], b[:depth]) for a, b in pairs]),
    )
    for _ in engines():
        assert_same(align(batch).cut(depth), align(tops))


@pytest.mark.parametrize(("n", "k"), [(600, 3), (60, 49), (60, 300)])
def test_sums_by_depth_are_the_same_to_the_last_bit_for_any_weights(n, k, engines):
    alignment = align(draw(n, k))
    for weights in (np.random.default_rng(2).standard_normal(alignment.k), np.zeros(alignment.k)):
        one, other = [alignment.sum_by_depth(weights).view(np.int64) for _ in engines()]
        np.testing.assert_array_equal(one, other)


ODD = st.sampled_from(["", "\0", "a", "a\0", "\0a", "é", "e\u0301", "漢字", "x" * 1_000])
ALIKE = st.integers(0, 40).map("x".__mul__)
TEXTS = st.lists(st.text(max_size=40) | st.text("ab", max_size=20) | ALIKE | ODD, max_size=20)


def coded(texts: pa.ChunkedArray, machine: ModuleType) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "compiled", lambda _: machine)
        return _encode_texts(pd.Series(pd.arrays.ArrowExtensionArray(texts)).astype("str").array)


def assert_coded(texts: pa.ChunkedArray, machine: ModuleType) -> None:
    codes, distinct = coded(texts, machine)

    known = texts.combine_chunks().dictionary_encode()
    assert codes.tolist() == known.indices.to_pylist()
    assert distinct.tolist() == known.dictionary.to_pylist()


@settings(max_examples=15)
@given(first=TEXTS, more=st.lists(TEXTS, max_size=2), skipped=st.integers(0, 5))
def test_codes_are_arrows(machine, first, more, skipped):
    parts = [pa.array(part, pa.large_string()) for part in (["skipped"] * 5 + ["a", *first], *more)]
    assert_coded(pa.chunked_array(parts)[skipped:], machine)


@pytest.mark.parametrize("shape", ["{}", "same-first-16-bytes-{}"])
def test_very_many_are_coded_through_every_growth_of_the_table(shape, machine):
    slots = constants(machine.code_texts)["FIRST_SLOTS"]
    numbers = np.random.default_rng(5).integers(0, 4 * slots, 8 * slots)
    assert_coded(
        pa.chunked_array([pa.array(map(shape.format, numbers.tolist()), pa.large_string())]),
        machine,
    )


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 25])
def test_texts_that_differ_in_one_byte_or_in_length_differ(length, machine):
    others = ["x" * at + "y" + "x" * (length - at - 1) for at in range(length)]
    texts = ["x" * length, *others, "x" * length + "\0", *reversed(others), "x" * length]
    assert_coded(pa.chunked_array([texts]), machine)


def test_offsets_may_lie_at_any_address(machine):
    aligned = pa.array(["b", "a", "b"], pa.large_string()).buffers()
    offsets = pa.py_buffer(b"." + aligned[1].to_pybytes()).slice(1)
    texts = pa.Array.from_buffers(pa.large_string(), 3, [None, offsets, aligned[2]])

    assert_coded(pa.chunked_array([texts]), machine)


@pytest.mark.parametrize("texts", [[], ["a", None]])
def test_what_is_no_text_is_left_to_pandas(texts, machine):
    assert coded(pa.chunked_array([pa.array(texts, pa.large_string())]), machine) is None


@pytest.mark.parametrize(("length", "is_told_apart"), [(15, True), (16, False)])
def test_texts_whose_hashes_all_meet_are_told_apart_or_left_to_arrow(
    length, is_told_apart, machine
):
    data = np.frombuffer(
        b"".join(b"%0*d" % (length, number % 100) for number in range(200)), np.uint8
    )

    found = machine.code_texts(np.arange(0, len(data) + 1, length), data, seed=0)

    assert (found is not None) == is_told_apart
    assert found is None or found[0].tolist() == [*range(100), *range(100)]
