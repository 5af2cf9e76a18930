"""Texts as codes by machine code: as Arrow codes them, whatever they are and however they lie in memory."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.kernels.engines.choice import VARIABLE
from monitor.kernels.engines.compiled import code_texts
from monitor.pairing.ids import _encode_texts

pytestmark = pytest.mark.usefixtures("machine_code")

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

    found = code_texts(np.arange(0, len(data) + 1, length), data, seed=0)

    assert (found is not None) == is_told_apart
    assert found is None or found[0].tolist() == [*range(3_000), *range(3_000)]
