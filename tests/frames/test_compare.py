"""monitor.compare: one pair."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import monitor
from kernels import reference
from monitor.errors import InputError, MetricError
from monitor.pairing.ids import equality_key


def test_a_pair_is_measured_by_the_three_default_metrics() -> None:
    found = monitor.compare(["a", "b"], ["b", "a"])

    assert found == pytest.approx({"extended_tau": 5 * 2 / 9 - 5 / 9, "rbo(p=0.9)": 0.9, "overlap": 1.0})
    assert all(type(value) is float for value in found.values())


def test_the_film_example_comes_out_of_the_front_door() -> None:
    found = monitor.compare([1, 2, 3, 4, 5, 6, 78], [2, 4, 5, 1, 3, 6, 78], metrics=("rbo", "rbo(p=0.75)"))

    assert found == pytest.approx({"rbo(p=0.9)": 0.782775, "rbo(p=0.75)": 0.5361328125}, abs=1e-12)


def test_one_metric_may_stand_alone() -> None:
    assert monitor.compare(["a"], ["a"], metrics="overlap") == {"overlap": 1.0}


def test_lists_are_cut_to_k_before_duplicates_are_dropped() -> None:
    # Cut to 3: a a b -> a b, and a b c. Dropping first would leave a b c twice.
    assert monitor.compare(["a", "a", "b", "c"], ["a", "b", "c"], metrics="overlap", k=3) == {"overlap": 2 / 3}
    assert monitor.compare(["a", "a", "b", "c"], ["a", "b", "c"], metrics="overlap") == {"overlap": 1.0}


@pytest.mark.parametrize("shape", [list, tuple, np.array, pd.Series, pd.Index, lambda x: np.array(x, dtype=object)])
@pytest.mark.parametrize("items", [["x", "y", "z"], [3, 1, 2], [0.5, 1.5, 2.5]])
def test_every_kind_of_sequence_is_read_alike(shape: type, items: list[object]) -> None:
    assert monitor.compare(shape(items), items[::-1]) == monitor.compare(items, items[::-1])


def test_empty_lists_have_their_stated_values() -> None:
    assert monitor.compare([], ["a"]) == {"extended_tau": -1.0, "rbo(p=0.9)": 0.0, "overlap": 0.0}
    assert all(math.isnan(value) for value in monitor.compare([], []).values())


@pytest.mark.parametrize(
    ("ranking", "message"),
    [
        ("abc", "a value of type str where a list"),
        (b"abc", "a value of type bytes where a list"),
        (7, "a value of type int where a list"),
        (None, "a value of type NoneType where a list"),
        ({"a", "b"}, "a value of type set where a list"),
        ({"a": 1}, "a value of type dict where a list"),
        (np.zeros((2, 2)), "an array of 2 dimensions where a list"),
        (["a", None], "found None where an item id"),
        ([1, math.nan], "found nan where an item id"),
        (np.array([1, math.nan]), "found .*nan.* where an item id"),
        ([pd.NA], "found <NA> where an item id"),
        ([pd.NaT], "found NaT where an item id"),
        (pd.Series(["a", None], dtype="str"), "found nan where an item id"),
        (["a", ["b"]], "an item of type list: ids must be hashable"),
        ([{"id": 1}], "an item of type dict: ids must be hashable"),
    ],
)
def test_what_is_no_ranking_is_refused_by_name(ranking: object, message: str) -> None:
    with pytest.raises(InputError, match=f"the first list: found {message.removeprefix('found ')}"):
        monitor.compare(ranking, ["a"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the second list"):
        monitor.compare(["a"], ranking)  # type: ignore[arg-type]


def test_wrong_metrics_are_refused() -> None:
    with pytest.raises(InputError, match="metrics is empty"):
        monitor.compare(["a"], ["a"], metrics=())
    with pytest.raises(MetricError, match="did you mean 'rbo'"):
        monitor.compare(["a"], ["a"], metrics=["rob"])
    with pytest.raises(InputError, match=r"^metrics must be a name or several, such as rbo\(p=0.9\), not None"):
        monitor.compare(["a"], ["a"], metrics=None)  # type: ignore[arg-type]


def test_the_front_door_holds_what_it_lists() -> None:
    assert all(getattr(monitor, name) is not None for name in monitor.__all__)
    assert monitor.rbo_weight(0.9, 10) == pytest.approx(0.8555854467473518, abs=1e-15)


def test_a_module_attribute_that_is_not_there_is_no_surprise() -> None:
    with pytest.raises(AttributeError, match="no attribute 'comparee'"):
        monitor.comparee  # noqa: B018 - the access is the act


@pytest.mark.filterwarnings("ignore:no item is in both arms")
@given(
    a=st.lists(st.one_of(st.integers(-3, 3), st.text(max_size=1), st.booleans()), max_size=8),
    b=st.lists(st.one_of(st.integers(-3, 3), st.text(max_size=1), st.booleans()), max_size=8),
    k=st.none() | st.integers(1, 9),
)
def test_compare_equals_the_definition_on_cut_and_deduplicated_lists(a: list[object], b: list[object], k: int | None) -> None:
    x, y = (list(dict.fromkeys(map(equality_key, ranking[:k]))) for ranking in (a, b))
    expected = [reference.extended_tau(x, y), reference.rbo(x, y, 0.9), reference.overlap(x, y)]

    np.testing.assert_allclose(list(monitor.compare(a, b, k=k).values()), expected, rtol=0, atol=1e-12)
