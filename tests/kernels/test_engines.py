"""Which engine is used, and when; machine code finds what numpy finds, bit by bit."""

import mmap
from itertools import count

import numpy as np
import pytest

from kernels import reference
from kernels.conftest import constants
from monitor.measures.kernels import align
from monitor.measures.kernels.engines import choice
from monitor.measures.kernels.engines.choice import ENGINE_VARIABLE, MAX_K, Engines
from monitor.model.errors import ConfigError


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    """Nobody asks for an engine, and nothing is compiled."""
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    monkeypatch.setattr(choice, "load_compiled", lambda: choice)


def test_little_work_and_work_of_earlier_periods_are_numpys():
    for work, period_s in ((300, 0.0), (600, choice.PERIOD_S), (600, 2 * choice.PERIOD_S)):
        process = Engines(worth_loading=1_000, monotonic=count(0.0, period_s).__next__)

        assert [process.compiled(work) for _ in range(3)] == [None] * 3


def test_much_work_loads_machine_code_for_good():
    process = Engines(worth_loading=1_000)

    assert [process.compiled(work) for work in (600, 600, 1)] == [None, choice, choice]


def test_a_requested_engine_is_used_at_once_for_any_amount_of_work(monkeypatch):
    for engine, expected in (("numpy", None), ("numba", choice)):
        monkeypatch.setenv(ENGINE_VARIABLE, engine)
        assert [Engines(worth_loading=0).compiled(work) for work in (0, 10**15)] == [expected] * 2
    monkeypatch.setenv(ENGINE_VARIABLE, "numbat")
    with pytest.raises(
        ConfigError, match=r"^RANKWATCH_ENGINE=numbat: set it to one of auto, numpy, numba$"
    ):
        Engines().compiled()


def forbid_machine_code(*_, **__):
    raise PermissionError


@pytest.mark.parametrize(
    "place, obstacle, message",
    [
        (mmap, ("mmap", forbid_machine_code), "forbids machine code"),
        (choice, ("find_spec", lambda _: None), r"pip install 'WHEEL\[fast\]'"),
    ],
)
def test_without_machine_code_numba_is_an_error_and_auto_is_numpy(
    place, obstacle, message, monkeypatch
):
    monkeypatch.setattr(place, *obstacle)

    monkeypatch.setenv(ENGINE_VARIABLE, "auto")
    process = Engines(worth_loading=0)
    assert [process.compiled(1) for _ in range(2)] == [None, None]
    monkeypatch.setenv(ENGINE_VARIABLE, "numba")
    with pytest.raises(ConfigError, match=message):
        Engines().compiled()


def draw(n, k, *, top=0, even=False):
    """Codes from ``top`` on."""
    return reference.batch(reference.draw(n, 0, even=even, lengths=(k,), tops=(top,)), k)


@pytest.fixture
def engines(machine, monkeypatch):
    """An iterator that sets numpy first, then machine code."""

    def set_each():
        for module in (None, machine):
            monkeypatch.setattr(choice, "compiled", lambda *_, module=module: module)
            yield

    return set_each


def find_the_same(batch, engines):
    one, other = [align(batch) for _ in engines()]
    assert_same(one, other)
    return one, other


def assert_same(one, other):
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
    tile = constants(machine.align_lists)["HASH_TILE"]
    for n, top, even in (
        (0, 0, True),
        (9, 0, True),
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


@pytest.mark.parametrize("n, k", [(600, 3), (60, 49), (60, 300)])
def test_sums_by_depth_are_the_same_to_the_last_bit_for_any_weights(n, k, engines):
    alignment = align(draw(n, k))
    for weights in (np.random.default_rng(2).standard_normal(alignment.k), np.zeros(alignment.k)):
        one, other = [alignment.sum_by_depth(weights).view(np.int64) for _ in engines()]
        np.testing.assert_array_equal(one, other)
