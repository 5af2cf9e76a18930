"""Columns of text as Arrow holds them: in several arrays, in slices, with wide and narrow offsets."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.api.extensions import ExtensionArray

from monitor.kernels.engines.choice import VARIABLE
from monitor.kernels.engines.codes import code_texts

MANY = pd.Series([f"item-{number}" for number in np.random.default_rng(3).integers(0, 999, 5_000)], dtype="str")
TEXTS = st.lists(st.lists(st.text(max_size=20) | st.sampled_from(["", "a", "b", "é"]), max_size=8), max_size=4)


def column(parts: list[list[str]], kind: Any = None) -> ExtensionArray:
    return pd.arrays.ArrowExtensionArray(
        pa.chunked_array([pa.array(part, kind or pa.string()) for part in parts], kind or pa.string())
    )


def assert_coded(texts: ExtensionArray) -> None:
    found = code_texts(texts)

    known: dict[str, int] = {}
    assert found is not None
    assert found[0].tolist() == [known.setdefault(text, len(known)) for text in texts.tolist()]
    assert texts.take(found[1]).tolist() == list(known)


@pytest.fixture(scope="module", autouse=True)
def _by_machine_code() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "numba")
        yield


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@given(parts=TEXTS, skipped=st.integers(0, 9))
def test_texts_in_several_arrays_are_one_column(kind: Any, parts: list[list[str]], skipped: int) -> None:
    assert_coded(column([["skipped"] * skipped, *parts], kind)[skipped:])


@pytest.mark.parametrize(
    "texts",
    [
        MANY.array,
        pd.Series(["x", "b", "a", "b"], dtype="str").array[1:3],
        pd.arrays.ArrowExtensionArray(pa.array(["x", "yy", "é", "yy", "", "z"]).slice(1, 4)),
    ],
    ids=["of pandas", "a slice of it", "a slice of one array"],
)
def test_a_column_of_text_is_coded(texts: ExtensionArray) -> None:
    assert_coded(texts)


@pytest.mark.parametrize(
    "texts",
    [
        pd.array(["a", None], dtype="str"),
        pd.array(["a"], dtype=pd.StringDtype("python")),
        pd.arrays.ArrowExtensionArray(pa.array(["a"], pa.string_view())),
        pd.arrays.ArrowExtensionArray(pa.array([1])),
        pd.Categorical(["a"]),
    ],
    ids=["missing", "Python's objects", "views", "integers", "categories"],
)
def test_other_columns_are_left_to_pandas(texts: Any) -> None:
    assert code_texts(texts) is None
