"""monitor.compare: one pair."""

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


@pytest.mark.parametrize("shape", [list, tuple, np.array, pd.Series, pd.Index, lambda x: np.array(x, dtype=object)])
@pytest.mark.parametrize("items", [["x", "y", "z"], [3, 1, 2], [0.5, 1.5, 2.5]])
def test_every_kind_of_sequence_is_read_alike(shape: type, items: list[object]) -> None:
    assert monitor.compare(shape(items), items[::-1]) == monitor.compare(items, items[::-1])


def test_wrong_metrics_are_refused() -> None:
    with pytest.raises(InputError, match="metrics is empty"):
        monitor.compare(["a"], ["a"], metrics=())
    with pytest.raises(MetricError, match="did you mean 'rbo'"):
        monitor.compare(["a"], ["a"], metrics=["rob"])
    with pytest.raises(InputError, match=r"^metrics must be a name or several, such as rbo\(p=0.9\), not None"):
        monitor.compare(["a"], ["a"], metrics=None)  # type: ignore[arg-type]


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
