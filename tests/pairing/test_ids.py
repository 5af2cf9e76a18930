"""Ids as codes: codes are equal if the texts of the ids are equal, so 42 is "42" in all types."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from monitor.measures.frames.lists import from_array, from_objects
from monitor.measures.kernels.item_codes import distinct_items
from monitor.measures.pairing import ids

PARTS: Any = {
    "text": pd.Series(["1", "b", "1", "a"], dtype="str"),
    "numbers": np.array([1, 3, 1, 2]),
    "narrow numbers": np.array([1, 3, 1, 2], dtype=np.int32),
    "narrow negative numbers": np.array([1, -3, 1, 2], dtype=np.int32),
    "negative numbers": np.array([1, -3, 1, 2]),
    "numbers beyond codes": np.array([1, 2**40, 1, 2]),
    "whole floats": np.array([1.0, 5.0, 1.0, 2.0]),
    "categories": pd.Series(["a", "b", "1", "a"], dtype="category"),
    "categories of numbers": pd.Series([2, 1, 2], dtype="category"),
    "mixed": pd.Series(["a", 1, 2.0, "b"], dtype=object),
    "nothing": pd.Series([], dtype=object),
}


def spelt(item):
    """The id with whole numbers as text."""
    return str(int(item)) if isinstance(item, int | float) and item == int(item) else item


@pytest.mark.parametrize("ours", PARTS)
def test_codes_are_equal_exactly_where_ids_are(ours):
    for theirs in PARTS:
        parts = [from_array(PARTS[name], "ids") for name in (ours, theirs, "text")]

        codes, vocabulary = ids.encode_ids(*parts)

        flat = [spelt(item) for part in parts for item in part.tolist()]
        coded = np.concatenate(codes).tolist()
        for (a, x), (b, y) in itertools.combinations(zip(coded, flat, strict=True), 2):
            assert (a == b) == (x == y), theirs
        assert [spelt(item) for item in ids.ids_of(np.array(coded), vocabulary)] == flat, theirs
        assert all(0 <= code < 2**31 for code in coded), theirs


def test_whole_numbers_that_can_be_codes_are_their_own():
    given_ids = np.array([5, 2**31 - 1, 0])

    (codes,), vocabulary = ids.encode_ids(given_ids)

    assert codes is given_ids or codes.base is given_ids
    assert ids.ids_of(codes[:2], vocabulary) == [5, 2**31 - 1]


@given(items=st.lists(st.one_of(st.integers(-2, 12), st.text("ab1", min_size=1, max_size=2))))
def test_ranks_by_text_follow_the_text(items):
    (codes,), vocabulary = ids.encode_ids(from_objects(items, "ids"))
    known = np.unique(codes)

    by_rank = [
        ids.ids_of(known[[place]], vocabulary)[0]
        for place in np.argsort(ids.rank_by_text(known, vocabulary))
    ]

    assert by_rank == sorted(by_rank, key=str)


def test_distinct_codes_are_found():
    for top in [3, 2**26, 2**31 - 1]:
        assert distinct_items(
            np.array([0, top, 0]), np.array([[top, -1], [1, -1]], dtype=np.int32)
        ).tolist() == [0, 1, top]
        assert not len(distinct_items(np.array([], dtype=np.int64)))


def test_what_is_given_is_never_overwritten():
    numbers, texts = np.array([2**40, 5, 2**40]), pd.array(["b", "a", "b"], dtype="str")
    ids.encode_ids(np.array([5, 2**40]), numbers)
    ids.encode_ids(pd.array(["a", "b"], dtype="str"), texts)
    assert (numbers.tolist(), texts.tolist()) == ([2**40, 5, 2**40], ["b", "a", "b"])

    names = [
        f"item-{number}" for number in range(40_000)
    ]  # so many that pandas codes them in 32 bits
    categories = pd.Categorical(names, categories=names)
    (_, coded), vocabulary = ids.encode_ids(pd.array(names[::-1], dtype="str"), categories)
    assert ids.ids_of(coded, vocabulary) == names == categories.tolist()


def test_only_the_one_spelling_of_a_number_is_that_number():
    for spelling in ["042", "42.0", " 42", "+42", "-0", "99999999999", "٤٢"]:
        assert ids.codes_of(pd.array([spelling, "42"], dtype="str"), None).tolist() == [-1, 42]


OWN_CODES = {"numbers", "narrow numbers", "whole floats", "nothing"}


def test_ids_from_elsewhere_find_the_codes_of_their_equals():
    for arm in [name for name in PARTS if name not in OWN_CODES]:
        own = from_array(PARTS[arm], "ids")
        (codes,), vocabulary = ids.encode_ids(own)
        code_of = {
            spelt(item): code for item, code in zip(own.tolist(), codes.tolist(), strict=True)
        }

        for part in PARTS.values():
            others = from_array(part, "ids")
            assert ids.codes_of(others, vocabulary).tolist() == [
                code_of.get(spelt(item), -1) for item in others.tolist()
            ]


def test_where_codes_are_the_ids_a_number_from_elsewhere_is_its_own_code():
    for others in ([3, -1, 2**31], ["3", "-1", "b"], [3.0, -5.0, 1e15], [3, "a", "x"]):
        assert ids.codes_of(from_array(pd.Series(others), "ids"), None).tolist() == [3, -1, -1]


USERS: Any = [["7", "b", "42"], [42, 7], ["a", 42, "7"]]


@pytest.mark.parametrize("wanted", USERS)
@pytest.mark.parametrize("present", USERS)
def test_users_are_found_by_the_same_rule(wanted, present):
    found = ids.find_users(*(pd.Index(users, tupleize_cols=False) for users in (wanted, present)))
    row_of = {spelt(user): row for row, user in enumerate(present)}

    assert found.tolist() == [row_of.get(spelt(user), -1) for user in wanted]
