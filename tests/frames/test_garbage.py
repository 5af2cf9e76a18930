"""What happens to odd input: a rule each, as the docstrings of compare and compare_many state it."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

import monitor
from monitor.errors import InputError

OVERLAP = "overlap"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("1", 1, True),
        ("1", np.int64(1), True),
        ("1", 1.0, True),
        (2**100, str(2**100), True),
        ("01", 1, False),
        ("1.0", 1, False),
        (Decimal(1), 1, True),
        (np.str_("a"), "a", True),
        (UUID(int=5), str(UUID(int=5)), True),
        ("a", "A", False),
        ("\u00e9", "e\u0301", False),
        (0.0, -0.0, True),
        (1, 1.0, True),
        ("a", b"a", True),
        (np.float32(3), 3, True),
        (-1, 2**32 - 1, False),
    ],
)
@pytest.mark.filterwarnings("ignore:no item is in both arms")
def test_ids_of_every_type_are_equal_as_their_spelling_says(one: Any, other: Any, is_same: bool) -> None:
    expected = {OVERLAP: float(is_same)}

    assert monitor.compare([one], [other], OVERLAP) == expected
    assert monitor.compare_many({"u": [one]}, {"u": [other]}, OVERLAP).loc["u"].to_dict() == expected
    assert monitor.compare([one, "x", 7], [other, "x", 7], OVERLAP)[OVERLAP] == pytest.approx(1 if is_same else 2 / 3)


def test_types_may_be_mixed_within_a_list_and_between_users() -> None:
    lists = {"u": ["1", 1, 2.0, UUID(int=5)], "v": [15, "a"]}

    assert monitor.compare_many(lists, lists, "extended_tau")["extended_tau"].tolist() == [1.0, 1.0]


def generated() -> Iterator[str]:
    yield "a"


@pytest.mark.parametrize(
    "ranking",
    [
        generated(),
        {"a"},
        {"a": 1}.keys(),
        "ab",
        b"ab",
        7,
        None,
        range(3),
        np.array("a"),
        np.zeros((2, 2)),
        pd.DataFrame({"a": [1]}),
    ],
    ids=lambda ranking: type(ranking).__name__,
)
def test_what_has_no_order_or_no_items_is_no_list(ranking: Any) -> None:
    with pytest.raises(InputError, match=r"the first list: found .* where a list of item ids, best first, was expected"):
        monitor.compare(ranking, ["a"])
    with pytest.raises(InputError, match=r"the second list: found"):
        monitor.compare(["a"], ranking)
    with pytest.raises(InputError, match=r"lists of the candidate: found .* where a list of item ids"):
        monitor.compare_many({"u": ["a"], "v": ["a"]}, {"u": ["a"], "v": ranking})


@pytest.mark.parametrize(
    "missing", [None, math.nan, np.nan, pd.NA, pd.NaT, Decimal("NaN"), np.datetime64("NaT"), np.float32("nan")]
)
def test_a_missing_id_is_an_error_and_no_item(missing: Any) -> None:
    for ranking in (
        ["a", missing],
        [missing],
        (1, missing),
        np.array([missing, "b"], dtype=object),
        pd.Series(["a", missing], dtype=object),
    ):
        with pytest.raises(InputError, match=r"found .* where an item id was expected: drop the item or name it"):
            monitor.compare(ranking, ["a"])
    with pytest.raises(InputError, match="where an item id was expected"):
        monitor.compare_many({"u": ["a", missing]}, {"u": ["a"]})


@pytest.mark.parametrize(
    "call",
    [
        lambda half: monitor.compare(["a", half], ["a"]),
        lambda half: monitor.compare(np.array([half]), pd.Series(["a"])),
        lambda half: monitor.compare(["a"], ["a"], item_weights={"a": 1.0, half: 1.0}),
        lambda half: monitor.compare_many({half: ["a"]}, {half: ["a"]}),
        lambda half: monitor.compare_many({"u": ["a"]}, {"u": ["a"]}, "ndcg", relevance={half: {"a": 1.0}}),
        lambda half: monitor.summarize(monitor.compare_many({"u": ["a"]}, {"u": ["a"]}), by={"u": half}),
    ],
)
def test_half_a_character_in_an_id_or_segment_is_an_error_in_words(call: Callable[[str], object]) -> None:
    with pytest.raises(InputError, match=r"found the text 'x\\ud800', which is no Unicode: decode"):
        call("x\ud800")


def test_the_text_nan_is_an_item() -> None:
    assert monitor.compare(["nan", "None", "<NA>"], ["None", "nan", "x"], OVERLAP) == {OVERLAP: pytest.approx(2 / 3)}


@pytest.mark.parametrize("nested", [[["a"]], [("a", ["b"])], [{"a"}], [{"a": 1}], [np.array([1])], [["a"], "b"]])
def test_a_list_of_what_cannot_be_hashed_is_refused(nested: Any) -> None:
    with pytest.raises(InputError, match=r"ids must be hashable|found .* where an item id"):
        monitor.compare(nested, ["a"])


@pytest.mark.parametrize("data", [generated(), {1, 2}, "ab", 3, None, iter([["a"]]), object()])
def test_an_arm_of_no_known_shape_is_refused(data: Any) -> None:
    with pytest.raises(
        InputError, match=r"baseline is of type .*: expected a dict or Series of user -> list, a DataFrame, an Arrow table"
    ):
        monitor.compare_many(data, {"u": ["a"]})


def test_k_beyond_the_lists_k_none_and_a_k_of_numpy_mean_whole_lists() -> None:
    lists = ({"u": ["a", "b"]}, {"u": ["b", "c", "d"]})

    found = [monitor.compare_many(*lists, k=k).to_numpy().tolist() for k in (None, 3, 10**12, 10**30, np.int8(3))]  # type: ignore[arg-type]

    assert found[1:] == found[:1] * 4
    assert monitor.compare([1, 2], [1, 3], k=10**9) == monitor.compare([1, 2], [1, 3])


@pytest.mark.parametrize(
    ("k", "message"),
    [
        *((k, "k must be .*at least 1") for k in (0, -1, -3)),
        *((k, "k must be .*whole number") for k in (1.5, 2.0, "2", True, math.nan, [2])),
    ],
)
def test_a_k_that_is_no_whole_number_from_one_up_is_refused(k: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        monitor.compare_many({"u": ["a"]}, {"u": ["a"]}, k=k)
    with pytest.raises(InputError, match=message):
        monitor.compare(["a"], ["a"], k=k)


def test_users_of_one_arm_are_left_out_and_told() -> None:
    told = r"^1 users were compared, and left out 2 in baseline alone \(attrs\['only_baseline'\]\) and 2 in candidate alone"
    with pytest.warns(UserWarning, match=told):
        found = monitor.compare_many({"a": [1], 2: [1], "3": [1]}, {"b": [1], "02": [1], "3": [1]}, OVERLAP)

    assert found.index.tolist() == ["3"]
    assert (found.attrs["only_baseline"], found.attrs["only_candidate"]) == (("a", 2), ("b", "02"))


def test_users_are_equal_as_items_are() -> None:
    found = monitor.compare_many({1: ["a"], "x": ["b"]}, {"x": ["b"], "1": ["a"]}, OVERLAP)

    assert found[OVERLAP].to_dict() == {1: 1.0, "x": 1.0}


@pytest.mark.parametrize("lists", [{1: ["a"], "1": ["b"]}, pd.DataFrame({"user": [1, "1"], "items": [["a"], ["b"]]})])
def test_a_user_both_as_number_and_as_text_is_refused(lists: Any) -> None:
    with pytest.raises(InputError, match=r"^baseline has user '1' both as a number and as text"):
        monitor.compare_many(lists, lists, OVERLAP)


@pytest.mark.parametrize("other", [["01", "b"], pd.Series(["01", "b"], dtype="category")])
def test_numbers_on_one_side_and_text_on_the_other_that_share_nothing_are_warned_of(other: Any) -> None:
    with pytest.warns(UserWarning, match=r"^no item is in both arms: the baseline's ids are numbers such as 1, .*alike$"):
        assert monitor.compare([1, 2], other, OVERLAP) == {OVERLAP: 0.0}
    with pytest.warns(UserWarning, match=r"^no item is in both arms: the baseline's ids are text such as 01, .*alike$"):
        monitor.compare_many({"u": other}, {"u": [1, 2]}, OVERLAP)


RANKED = pd.DataFrame({"user": [1], "item": [1], "rank": [1]})
ODD_MATRIX: Any = np.ma.masked_equal([[1, 2]], 2)
ODD_COLUMN: Any = ["rank"]
IMAGINARY: Any = [1j, 2]
HIDING: dict[str, tuple[Callable[[], object], str]] = {
    "a masked row": (lambda: monitor.compare(np.ma.masked_equal([1, 2, 3], 2), [1, 3], OVERLAP), "masked values"),
    "masked rows": (lambda: monitor.compare_many({"u": ODD_MATRIX[0]}, {"u": [1]}, OVERLAP), "masked values"),
    "a masked matrix": (lambda: monitor.compare_many(ODD_MATRIX, np.array([[1, 3]]), OVERLAP), "masked values"),
    "records": (lambda: monitor.compare(np.zeros(2, dtype=[("a", "i4")]), [1], OVERLAP), "records"),
    "a signalling NaN": (lambda: monitor.compare([1, Decimal("sNaN")], [1], OVERLAP), "sNaN"),
    "imaginary scores": (lambda: monitor.compare([1, 2], [2, 1], "rbo_a", scores=(IMAGINARY, [1, 2])), "1j"),
    "an array of them": (lambda: monitor.compare([1, 2], [2, 1], "rbo_a", scores=(np.array(IMAGINARY), [1, 2])), "1j"),
    "a score beyond floats": (lambda: monitor.compare([1, 2], [2, 1], "rbo_a", scores=([10**400, 2], [1, 2])), "a number"),
    "a list as a column": (lambda: monitor.compare_many(RANKED, RANKED, OVERLAP, rank=ODD_COLUMN), "no column ['rank']"),
    "ranks of yes and no": (lambda: monitor.compare_many(RANKED.astype({"rank": bool}), RANKED, OVERLAP), "must hold numbers"),
}


@pytest.mark.parametrize("case", HIDING)
def test_what_numpy_or_python_would_quietly_misread_is_refused(case: str) -> None:
    call, words = HIDING[case]

    with pytest.raises(InputError) as caught:
        call()

    assert words in str(caught.value)


def test_lists_of_a_million_items_are_compared_as_they_are() -> None:
    # A rotation by one: the candidate's first item was the baseline's last.
    n = 10**6
    ranking = np.arange(n)

    found = monitor.compare(ranking, np.roll(ranking, 1), ("extended_tau", "overlap", "footrule"))

    assert found["overlap"] == 1.0
    assert found["footrule"] == 2 * (n - 1)
    assert 0.999 < found["extended_tau"] < 1
    texts = np.char.add("item-", ranking[:1000].astype(str))
    assert monitor.compare(texts, texts[::-1], "overlap") == {"overlap": 1.0}
