"""Labels and weights at the places of lists, against dicts."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.kernels import labels as module
from monitor.kernels.labels import place_grades, place_weights
from monitor.model.rankings import Labels

Graded = dict[int, list[tuple[int, float]]]


def codes(*rows: list[int], k: int = 3) -> np.ndarray:
    return np.array([row + [-1] * (k - len(row)) for row in rows], dtype=np.int32).reshape(-1, k)


def label_by_table(
    baseline: np.ndarray, candidate: np.ndarray, rows: list[int], table: list[list[tuple[int, float]]]
) -> Labels:
    return place_grades(
        baseline,
        candidate,
        np.array(rows, dtype=np.intp),
        np.cumsum([0, *map(len, table)]),
        np.array([item for row in table for item, _ in row], dtype=np.int32),
        np.array([grade for row in table for _, grade in row], dtype=np.float64),
    )


def label_by_dict(
    baseline: np.ndarray, candidate: np.ndarray, rows: list[int], table: list[list[tuple[int, float]]]
) -> list[object]:
    users = [table[row] if row >= 0 else [] for row in rows]
    counted = [[grade for _, grade in user] for user in users]
    k = baseline.shape[1]
    places = [
        [
            [known.get(item, 0.0) if item >= 0 else 0.0 for item in listed]
            for listed, known in zip(arm.tolist(), map(dict, users), strict=True)
        ]
        for arm in (baseline, candidate)
    ]
    ideal = [(sorted(grades, reverse=True) + [0.0] * k)[:k] for grades in counted]
    return [*places, ideal, [sum(grade > 0 for grade in grades) for grades in counted]]


def told(labels: Labels) -> list[object]:
    return [part.tolist() for part in (labels.grades.baseline, labels.grades.candidate, labels.ideal, labels.relevant)]


def test_grades_come_to_their_places_and_the_ideal_holds_what_was_not_listed() -> None:
    found = label_by_table(codes([7, 8, 9]), codes([9]), [0], [[(8, 1.0), (5, 3.0), (9, 2.0), (-4, 2.0)]])

    assert told(found) == [[[0, 1, 2]], [[2, 0, 0]], [[3, 2, 2]], [4]]


def test_a_table_without_grades_is_one_and_no_pairs_have_no_labels() -> None:
    found = label_by_table(codes(), codes(), [], [[(1, 1.0)]])

    assert told(label_by_table(codes([1]), codes([1]), [0], [[]])) == [[[0, 0, 0]]] * 3 + [[0]]
    assert found.ideal.shape == (0, 3)
    assert found.relevant.shape == (0,)


@pytest.mark.parametrize("block_cells", [1, 100, 1 << 18])
def test_labels_are_those_of_a_dict_however_the_pairs_are_cut(block_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_CELLS", block_cells)
    chance = random.Random(3)  # noqa: S311 - test data
    for k, top in ((1, 0), (4, 0), (4, 2**31 - 40), (30, 70_000)):
        catalogue = range(top, top + 36)
        table = [
            [(item, chance.choice((0.0, 0.5, 1.0, 2.0))) for item in chance.sample([-1, -1, *catalogue], chance.randint(0, 38))]
            for _ in range(60)
        ]
        arms = [codes(*(chance.sample(catalogue, chance.randint(0, k)) for _ in range(300)), k=k) for _ in range(2)]
        rows = [chance.randint(-1, 59) for _ in range(300)]

        assert told(label_by_table(arms[0], arms[1], rows, table)) == label_by_dict(arms[0], arms[1], rows, table)


@given(
    items=st.lists(st.integers(-1, 30), max_size=20, unique=True),
    listed=st.lists(st.lists(st.integers(0, 30), unique=True, max_size=4), max_size=5),
    scale=st.sampled_from([1, 60_000_000]),
)
def test_weights_are_those_of_a_dict_whether_codes_are_dense_or_not(
    items: list[int], listed: list[list[int]], scale: int
) -> None:
    weights = [0.5 + i for i in range(len(items))]
    known = {item * scale: weight for item, weight in zip(items, weights, strict=True) if item >= 0}
    places = codes(*([item * scale for item in row] for row in listed), k=4)

    found = place_weights(places, np.array([item * scale for item in items], dtype=np.int32), np.array(weights), 9.0)

    expected = [[np.nan if item < 0 else known.get(item, 9.0) for item in row] for row in places.tolist()]
    np.testing.assert_array_equal(found, np.array(expected).reshape(places.shape))
