"""Ids as codes: equal where Python says so, whatever the parts are made of and whoever codes them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.frames import ids
from monitor.kernels.finding.engines import VARIABLE

PARTS: dict[str, Any] = {
    "text": pd.Series(["1", "b", "1", "a"], dtype="str"),
    "numbers": np.array([1, 3, 1, 2]),
    "narrow numbers": np.array([1, 3, 1, 2], dtype=np.int32),
    "narrow negative numbers": np.array([1, -3, 1, 2], dtype=np.int32),
    "negative numbers": np.array([1, -3, 1, 2]),
    "numbers beyond codes": np.array([1, 2**40, 1, 2]),
    "fractions": np.array([1.0, 0.5, 1.0, 2.0]),
    "categories": pd.Series(["a", "b", "1", "a"], dtype="category"),
    "categories of numbers": pd.Series([2, 1, 2], dtype="category"),
    "mixed": pd.Series(["a", 1, 2.0, ("a",)], dtype=object),
    "nothing": pd.Series([], dtype=object),
}


@pytest.fixture(params=["numpy", "numba"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Code by this engine."""
    monkeypatch.setenv(VARIABLE, request.param)
    return str(request.param)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("theirs", PARTS)
@pytest.mark.parametrize("ours", PARTS)
def test_codes_are_equal_exactly_where_ids_are(
    ours: str,
    theirs: str,
    threads: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ids, "WORTH_A_THREAD", 0 if threads else 1 << 62)
    parts = [ids.from_array(PARTS[name], "ids") for name in (ours, theirs, "text")]

    codes, vocabulary = ids.encode(*parts)

    flat = [item for part in parts for item in part.tolist()]
    coded = np.concatenate(codes).tolist()
    assert all((coded[i] == coded[j]) == (flat[i] == flat[j]) for i in range(len(flat)) for j in range(len(flat)))
    assert vocabulary.take(np.array(coded)) == flat
    assert all(0 <= code < 2**31 for code in coded)


def test_whole_numbers_that_can_be_codes_are_their_own() -> None:
    given_ids = np.array([5, 2**31 - 1, 0])

    (codes,), vocabulary = ids.encode(given_ids)

    assert codes is given_ids or codes.base is given_ids
    assert vocabulary.take(codes[:2]) == [5, 2**31 - 1]


@given(items=st.lists(st.one_of(st.integers(-2, 12), st.text("ab1", max_size=2), st.booleans())))
def test_ranks_by_text_follow_text_then_the_name_of_the_type(items: list[Any]) -> None:
    (codes,), vocabulary = ids.encode(ids.from_objects(items, "ids"))
    known = np.unique(codes)

    by_rank = [vocabulary.take(known[[place]])[0] for place in np.argsort(vocabulary.rank_by_text(known))]

    assert by_rank == sorted(by_rank, key=lambda item: (str(item), type(item).__name__))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("top", [3, 2**26, 2**31 - 1])
def test_distinct_codes_are_counted(top: int) -> None:
    assert ids.count_distinct(np.array([0, top, 0]), np.array([top, 1])) == 3
    assert ids.count_distinct(np.array([], dtype=np.int64)) == 0


@given(parts=st.lists(st.lists(st.text("ab", max_size=3) | st.text(max_size=20), min_size=1), min_size=1, max_size=3))
def test_both_engines_give_the_same_codes(parts: list[list[str]]) -> None:
    found = []
    for engine in ("numpy", "numba"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, engine)
            codes, vocabulary = ids.encode(*(ids.from_objects(part, "ids") for part in parts))
        found.append(([part.tolist() for part in codes], vocabulary.take(np.unique(np.concatenate(codes)))))

    assert found[0] == found[1]


@pytest.mark.usefixtures("engine")
def test_what_is_given_is_never_overwritten() -> None:
    numbers, texts = np.array([2**40, 5, 2**40]), pd.array(["b", "a", "b"], dtype="str")

    names = [f"item-{number}" for number in range(40_000)]  # so many that pandas codes them in 32 bits
    categories = pd.Categorical(names, categories=names)

    (_, coded), vocabulary = ids.encode(pd.array(names[::-1], dtype="str"), categories)
    assert vocabulary.take(coded) == names == categories.tolist()
    ids.encode(np.array([5, 2**40]), numbers)
    ids.encode(pd.array(["a", "b"], dtype="str"), texts)

    assert (numbers.tolist(), texts.tolist()) == ([2**40, 5, 2**40], ["b", "a", "b"])
