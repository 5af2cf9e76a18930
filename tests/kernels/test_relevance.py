"""Measures of relevance and labels at the places of lists: worked values, what always holds, agreement with definitions."""

import math
import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from kernels import reference_relevance as slow
from monitor.kernels import align
from monitor.kernels import labels as module
from monitor.kernels.labels import place_weights
from monitor.kernels.relevance import cg, dcg, ndcg, of_arm
from monitor.metrics import parse
from monitor.model.rankings import Labels


def column(*grades: float) -> np.ndarray:
    return np.array(grades, dtype=np.float64)[:, None]


def test_exponential_gains_of_huge_grades_are_infinite_but_their_ndcg_is_not():
    grades, ideal = column(1023, 4000), column(4000, 1023)

    assert dcg(grades, "exponential").tolist() == [math.inf]
    assert ndcg(ideal, ideal, "exponential").tolist() == [1.0]
    assert ndcg(grades, ideal, "exponential")[0] == pytest.approx(1 / math.log2(3), abs=1e-12)


def test_an_infinite_gain_less_an_infinite_gain_is_undefined():
    alignment = slow.aligned([([1, 2], [2, 1])], [{1: 2000.0, 2: 1.0}])

    assert np.isnan(
        of_arm(alignment, "difference", lambda grades, _: dcg(grades, "exponential"))
    ).all()


def test_users_of_whom_nothing_is_known_are_undefined_in_every_arm():
    alignment = slow.aligned(
        [([1, 2], [2, 1]), ([1], [2]), ([], []), ([], [1])], [{}, {1: 0.0}, {1: 1.0}, {1: 1.0}]
    )

    for arm, last in (("baseline", 0.0), ("candidate", 1.0), ("difference", 1.0)):
        np.testing.assert_array_equal(
            of_arm(alignment, arm, lambda grades, _: cg(grades)), [math.nan] * 3 + [last]
        )


def test_an_alignment_without_labels_is_refused():
    with pytest.raises(ValueError, match="without labels"):
        of_arm(align(reference.batch([([1], [1])])), "difference", lambda grades, _: cg(grades))


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("k", reference.SHORT)
def test_every_measure_is_its_definition(k, even):
    definitions: dict[str, Callable[..., float]] = {
        "cg({})": slow.cg,
        "dcg({}, gain=linear)": partial(slow.dcg, gain="linear"),
        "dcg({}, gain=exponential)": partial(slow.dcg, gain="exponential"),
        "ndcg({}, gain=linear)": partial(slow.ndcg, k=k, gain="linear"),
        "ndcg({}, gain=exponential)": partial(slow.ndcg, k=k, gain="exponential"),
        "recall({})": slow.recall,
        "mrr({})": slow.reciprocal_rank,
        "map({})": slow.average_precision,
    }
    chance = random.Random(1)  # noqa: S311 - test data
    pairs, users = [], []
    for pair in reference.draw(40, 1, even=even, lengths=(k,)):
        graded = chance.sample(range(4 * k), chance.randint(0, 4 * k))
        known = {item: chance.choice((0.0, 1.0, 2.0, 3.0, 4.0, 0.5)) for item in graded}
        if any(known.values()) and any(pair):
            pairs.append(pair)
            users.append(known)
    alignment = slow.aligned(pairs, users, k)

    for place, arm in enumerate(("baseline", "candidate")):
        for name, define in definitions.items():
            literal = [define(pair[place], known) for pair, known in zip(pairs, users, strict=True)]
            found = parse(name.format(f"arm={arm}")).measure(alignment)
            np.testing.assert_allclose(found, literal, rtol=1e-12, atol=1e-12)


def codes(*rows: list[int], k: int = 3) -> np.ndarray:
    return reference.padded(rows, k)[0]


def label_by_definition(
    arms: tuple[np.ndarray, np.ndarray], rows: list[int], table: list[slow.Graded]
) -> list[object]:
    users = [table[row] if row >= 0 else [] for row in rows]
    places = [
        [
            [dict(user).get(item, 0.0) * (item >= 0) for item in listed]
            for listed, user in zip(arm.tolist(), users, strict=True)
        ]
        for arm in arms
    ]
    k = arms[0].shape[1]
    ideal = [(sorted((grade for _, grade in user), reverse=True) + [0.0] * k)[:k] for user in users]
    return [*places, ideal, [sum(grade > 0 for _, grade in user) for user in users]]


def told(labels: Labels) -> list[object]:
    return [
        part.tolist()
        for part in (labels.grades.baseline, labels.grades.candidate, labels.ideal, labels.relevant)
    ]


def test_a_table_without_grades_is_one_and_no_pairs_have_no_labels():
    assert told(slow.label((codes([1]), codes([1])), [0], [[]])) == [[[0, 0, 0]]] * 3 + [[0]]
    found = slow.label((codes(), codes()), [], [[(1, 1.0)]])
    assert (found.ideal.shape, found.relevant.shape) == ((0, 3), (0,))


@pytest.mark.parametrize("block_cells", [1, 100, 1 << 18])
@pytest.mark.parametrize(("k", "top"), [(1, 0), (4, 0), (4, 2**31 - 40), (30, 70_000)])
def test_labels_are_those_of_a_dict_however_the_pairs_are_cut(k, top, block_cells, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_CELLS", block_cells)
    chance = random.Random(3)  # noqa: S311 - test data
    catalogue = range(top, top + 36)
    table: list[slow.Graded] = []
    for _ in range(20):
        graded = chance.sample([-1, -1, *catalogue], chance.randint(0, 38))
        table.append([(item, chance.choice((0.0, 0.5, 1.0, 2.0))) for item in graded])
    lists = [chance.sample(catalogue, chance.randint(0, k)) for _ in range(120)]
    arms = codes(*lists[:60], k=k), codes(*lists[60:], k=k)
    rows = [chance.randint(-1, 19) for _ in range(60)]

    assert told(slow.label(arms, rows, table)) == label_by_definition(arms, rows, table)


@given(
    items=st.lists(st.integers(-1, 30), max_size=20, unique=True),
    listed=st.lists(st.lists(st.integers(0, 30), unique=True, max_size=4), max_size=5),
    scale=st.sampled_from([1, 60_000_000]),
)
def test_weights_are_those_of_a_dict_whether_codes_are_dense_or_not(items, listed, scale):
    weights = np.arange(len(items), dtype=np.float64) + 0.5
    known = dict(zip(items, weights, strict=True))
    lists = codes(*listed, k=4)

    scaled = np.where(lists < 0, lists, lists * scale)
    found = place_weights(scaled, np.array(items, dtype=np.int32) * np.int32(scale), weights, 9.0)

    expected = [
        [np.nan if item < 0 else known.get(item, 9.0) for item in row] for row in lists.tolist()
    ]
    np.testing.assert_array_equal(found, np.reshape(expected, lists.shape))
