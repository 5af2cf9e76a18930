"""Ids as codes by machine code: as pandas codes them, whatever they are made of."""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.kernels.engines import choice, compiled_codes
from monitor.kernels.engines.codes import code_integers, code_text

TEXTS = st.one_of(
    st.text(max_size=40),
    st.text("ab", max_size=20),
    st.sampled_from(["", "\0", "a", "a\0", "\0a", "é", "e\u0301", "漢字", "x" * 8, "x" * 15, "x" * 16, "x" * 17, "x" * 4_000]),
)


def as_arrays(texts: list[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return offsets, np.frombuffer(b"".join(parts), dtype=np.uint8)


def coded(texts: list[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    found = compiled_codes.code_by_table(*as_arrays(texts))
    assert found is not None
    return found


def assert_coded(texts: list[str]) -> None:
    codes, firsts = coded(texts)

    known: dict[str, int] = {}
    assert codes.tolist() == [known.setdefault(text, len(known)) for text in texts]
    assert [texts[first] for first in firsts] == list(known)


@given(texts=st.lists(TEXTS, max_size=60))
def test_codes_follow_first_appearance_and_are_equal_exactly_where_texts_are(texts: list[str]) -> None:
    assert_coded(texts)


@pytest.mark.parametrize("length", range(40))
def test_texts_that_differ_in_one_byte_or_in_length_differ(length: int) -> None:
    whole = "x" * length
    others = [whole[:at] + "y" + whole[at + 1 :] for at in range(length)]

    assert_coded([whole, *others, whole + "x", whole[:-1], whole + "\0", *reversed(others), whole])


@pytest.mark.parametrize("shape", ["{}", "item-{}", "{:015}", "{:016}", "{:0100}", "same-first-16-bytes-{}", "{}" + "x" * 30])
def test_very_many_ids_are_coded_through_every_growth_of_the_table(shape: str) -> None:
    rng = np.random.default_rng(5)
    texts = [shape.format(number) for number in rng.integers(0, 30_000, 60_000)]

    codes, firsts = coded(texts)

    expected, ids = pd.factorize(np.array(texts, dtype=object))
    np.testing.assert_array_equal(codes, expected)
    assert [texts[first] for first in firsts] == ids.tolist()


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 512])
def test_the_last_block_may_be_of_any_size(count: int) -> None:
    assert_coded([f"{number % 7}" * (number % 20) for number in range(count)])


def test_a_slice_of_a_longer_buffer_is_coded_as_if_it_stood_alone() -> None:
    offsets, data = as_arrays(["not this", "a", "b", "a", "nor this"])

    found = compiled_codes.code_by_table(offsets[1:5], data)

    assert found is not None
    assert [part.tolist() for part in found] == [[0, 1, 0], [0, 1]]


@pytest.fixture
def weak_hashes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts whose hashes meet: with a seed of zeros that of a word is the product of its halves, which may change places."""
    monkeypatch.setattr(compiled_codes, "_draw_seed", lambda: np.zeros(7, dtype=np.uint64))
    return [f"{a:>4}{b:>4}" for a in range(40) for b in range(40)]


def test_short_texts_whose_hashes_meet_are_told_apart(weak_hashes: list[str]) -> None:
    assert_coded([*weak_hashes, *reversed(weak_hashes)])


def test_long_texts_whose_hashes_meet_are_left_to_the_caller(weak_hashes: list[str]) -> None:
    long = [text + "-and-twenty-bytes-more" for text in weak_hashes]

    assert len({len(text) for text in long}) == 1
    assert compiled_codes.code_by_table(*as_arrays(long)) is None
    assert_coded(long[:1] * 3)


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)))
def test_integers_are_coded_as_pandas_codes_them(values: list[int]) -> None:
    given_values = np.array(values, dtype=np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(choice.VARIABLE, "numba")
        found = code_integers(given_values)

    assert found is not None
    expected, ids = pd.factorize(given_values)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(given_values[found[1]], ids)


@pytest.mark.parametrize("offsets", [[-1, 1], [0, 4], [0, 2, 1, 3]])
def test_offsets_that_lead_out_of_the_data_are_refused(offsets: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(choice.VARIABLE, "numba")

    with pytest.raises(ValueError, match=r"^offsets must ascend from 0 to at most 3, the number of bytes$"):
        code_text(np.array(offsets), np.zeros(3, dtype=np.uint8))


def test_without_machine_code_coding_is_left_to_the_caller() -> None:
    assert code_text(*as_arrays(["a"])) is None
    assert code_integers(np.array([1])) is None
