"""Odd input is handled as the docstrings of compare and compare_many say."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import monitor
from monitor.model.errors import InputError

OVERLAP = "overlap"


@pytest.mark.parametrize(
    "one, other, is_same",
    [
        ("1", 1, True),
        (Decimal(1), 1, True),
        ("\u00e9", "e\u0301", False),
        ("a", b"a", True),
        (-1, 2**32 - 1, False),
    ],
)
@pytest.mark.filterwarnings("ignore:no item is in both arms")
def test_ids_of_every_type_are_equal_as_their_spelling_says(one, other, is_same):
    expected = {OVERLAP: float(is_same)}

    assert monitor.compare([one], [other], OVERLAP) == expected
    many = monitor.compare_many({"u": [one, "x", 7]}, {"u": [other, "x", 7]}, OVERLAP)
    assert many[OVERLAP].tolist() == pytest.approx([1 if is_same else 2 / 3])


def generated():
    yield "a"


def test_what_has_no_order_or_no_items_is_no_list():
    for ranking in [generated(), {"a"}, "ab", None, np.zeros((2, 2))]:
        with pytest.raises(
            InputError,
            match=r"the second list: found .* where a list of item ids, best first, was expected",
        ):
            monitor.compare(["a"], ranking)
        with pytest.raises(
            InputError, match=r"lists of the candidate: found .* where a list of item ids"
        ):
            monitor.compare_many({"u": ["a"], "v": ["a"]}, {"u": ["a"], "v": ranking})


def test_a_missing_id_is_an_error_and_no_item():
    for missing in [None, pd.NA, Decimal("NaN"), np.datetime64("NaT", "D"), np.float32("nan")]:
        message = r"found .* where an item id was expected: drop it or replace it by an id"
        for ranking in (["a", missing], [missing], pd.Series(["a", missing], dtype=object)):
            with pytest.raises(InputError, match=message):
                monitor.compare_many({"u": ranking}, {"u": ["a"]})


def test_half_a_character_in_a_user_or_segment_is_an_error_in_words():
    for call in [
        lambda half: monitor.compare_many({half: ["a"]}, {half: ["a"]}),
        lambda half: monitor.summarize(
            monitor.compare_many({"u": ["a"]}, {"u": ["a"]}), {"u": half}
        ),
    ]:
        with pytest.raises(
            InputError, match=r"found the text 'x\\ud800', which is not valid Unicode"
        ):
            call("x\ud800")


def test_the_text_nan_is_an_item():
    assert monitor.compare(["nan", "None", "<NA>"], ["None", "nan", "x"], OVERLAP) == {
        OVERLAP: pytest.approx(2 / 3)
    }


def test_an_arm_of_no_known_shape_is_refused():
    for data in [generated(), "ab", None]:
        with pytest.raises(
            InputError, match=r"baseline is of type .*: give a dict or Series of user -> list, a Da"
        ):
            monitor.compare_many(data, {"u": ["a"]})


def test_k_beyond_the_lists_and_a_k_of_numpy_mean_whole_lists():
    lists = ["a", "b"], ["b", "c", "d"]

    for k in (3, 10**30, np.int8(3)):
        assert monitor.compare(*lists, k=k) == monitor.compare(*lists)  # type: ignore[arg-type]


def test_a_k_that_is_no_whole_number_from_one_up_is_refused():
    for k in [0, 2.0, "2", True, math.nan]:
        message = "k must be (a whole number or None, not|at least 1, not 0)"
        calls: Any = ((monitor.compare_many, {"u": ["a"]}), (monitor.compare, ["a"]))
        for compare, lists in calls:
            with pytest.raises(InputError, match=message):
                compare(lists, lists, k=k)


def test_users_of_one_arm_are_left_out_with_a_warning():
    told = (
        r"^2 users were compared; users left out: 2 that only the baseline has "
        r"\(attrs\['only_baseline'\]\) and 2 that only the candidate has"
    )
    ours, theirs = (
        {user: [1] for user in users} for users in (["a", 2, "3", 4], ["b", "4", "02", "3"])
    )
    with pytest.warns(UserWarning, match=told):
        found = monitor.compare_many(ours, theirs, OVERLAP)

    assert found.index.tolist() == ["3", 4]
    assert (found.attrs["only_baseline"], found.attrs["only_candidate"]) == (("a", 2), ("b", "02"))


def test_a_user_both_as_number_and_as_text_is_refused():
    lists = {1: ["a"], "1": ["b"]}
    with pytest.raises(InputError, match=r"^baseline has user '1' as a number and as text"):
        monitor.compare_many(lists, lists, OVERLAP)


def test_numbers_on_one_side_and_text_on_the_other_that_share_nothing_are_warned_of():
    other: Any = pd.Series(["01", "b"], dtype="category")
    with pytest.warns(
        UserWarning, match=r"leading zeros, such as '1' in .* and '01' in the cand"
    ) as warned:
        assert monitor.compare([1, 2], other, OVERLAP) == {OVERLAP: 0.0}
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match=r"leading zeros, such as '01' in .* and '1' in the cand"):
        monitor.compare_many({"u": other}, {"u": [1, 2]}, OVERLAP)


UNRANKED = pd.DataFrame({"user": [1], "item": [1]})
MASKED: Any = np.ma.masked_equal([[1, 2]], 2)
IMAGINARY: Any = [1j, 2]


def by_scores(scores):
    return monitor.compare([1, 2], [2, 1], "rbo_a", scores=(scores, [1, 2]))


def test_what_numpy_or_python_would_quietly_misread_is_refused():
    for call, words in [
        (
            lambda: monitor.compare(["x\ud800"], ["a"]),
            r"found text that is not UTF-8, .* where an item id",
        ),
        (lambda: monitor.compare(MASKED[0], [1, 3], OVERLAP), "masked values"),
        (
            lambda: monitor.compare_many(np.zeros((2, 2)), np.zeros((3, 2))),
            "baseline has 2 rows and candidate has 3",
        ),
        (lambda: monitor.compare(np.zeros(2, dtype=[("a", "i4")]), [1], OVERLAP), "records"),
        (lambda: monitor.compare([1, Decimal("sNaN")], [1], OVERLAP), "sNaN"),
        (lambda: by_scores(IMAGINARY), "1j"),
        (lambda: by_scores([10**400, 2]), "a number"),
        (
            lambda: monitor.compare_many(UNRANKED, {1: [1]}, OVERLAP, rank=["rank"]),  # type: ignore[arg-type]
            r"no column \['rank'\]",
        ),
    ]:
        with pytest.raises(InputError, match=words):
            call()


def test_lists_whose_pairs_are_beyond_32_bits_are_compared_as_they_are():
    # A rotation by one: the candidate's first item was the baseline's last.
    n = 10**5
    ranking = np.arange(n)

    found = monitor.compare(ranking, np.roll(ranking, 1), ("extended_tau", "overlap", "footrule"))

    assert found == {
        "extended_tau": pytest.approx(1, abs=1e-3),
        "overlap": 1.0,
        "footrule": 2 * (n - 1),
    }
    assert found["extended_tau"] < 1
