"""Measures of relevance and labels at the places of lists: worked values, what always holds, agreement with definitions."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from kernels import reference_relevance as slow
from monitor.kernels import align
from monitor.kernels import labels as module
from monitor.kernels.labels import place_grades, place_weights
from monitor.kernels.relevance import average_precision, cg, dcg, ndcg, ndcg_vs_baseline, of_arm, recall, reciprocal_rank
from monitor.model.rankings import Labels, PairBatch

SIX = [3.0, 2.0, 3.0, 0.0, 1.0, 2.0]


def column(*grades: float) -> np.ndarray:
    return np.array(grades, dtype=np.float64)[:, None]


def test_the_six_grades_have_exponential_dcg_13_848_and_not_the_copied_16_047() -> None:
    terms = [7, 3 / math.log2(3), 7 / 2, 0, 1 / math.log2(6), 3 / math.log2(7)]
    assert [round(term, 3) for term in terms] == [7, 1.893, 3.5, 0, 0.387, 1.069]

    found = dcg(column(*SIX), "exponential")[0]

    assert found == pytest.approx(sum(terms), abs=1e-12)
    assert found == pytest.approx(13.848, abs=5e-4)
    # The copied table shows the discount itself, log2(6) = 2.585, where gain / discount = 0.387 belongs.
    assert found - terms[4] + math.log2(6) == pytest.approx(16.047, abs=1e-3)


def test_binary_measures_of_a_worked_list() -> None:
    grades, four = column(0, 1, 0, 2, 1), np.array([4], dtype=np.int32)

    assert recall(grades, four).tolist() == [3 / 4]
    assert reciprocal_rank(grades).tolist() == [1 / 2]
    assert average_precision(grades, four)[0] == pytest.approx((1 / 2 + 2 / 4 + 3 / 5) / 4, abs=1e-15)


def test_a_swap_and_a_replacement_against_the_baseline_by_hand() -> None:
    alignment = align(reference.batch([([1, 2, 3], [2, 1, 3]), ([1, 2, 3], [1, 2, 9])]))
    third = 1 / 2
    ideal = 3 + 2 / math.log2(3) + third

    found = ndcg_vs_baseline(alignment, "linear")

    np.testing.assert_allclose(found, [(2 + 3 / math.log2(3) + third) / ideal, 1 - third / ideal], rtol=0, atol=1e-15)


def test_exponential_gains_of_huge_grades_are_infinite_but_their_ndcg_is_not() -> None:
    grades, ideal = column(1023, 4000), column(4000, 1023)

    assert dcg(grades, "exponential").tolist() == [math.inf]
    assert ndcg(ideal, ideal, "exponential").tolist() == [1.0]
    assert ndcg(grades, ideal, "exponential")[0] == pytest.approx(1 / math.log2(3), abs=1e-12)


def test_an_infinite_gain_less_an_infinite_gain_is_undefined() -> None:
    alignment = slow.aligned([([1, 2], [2, 1])], [{1: 2000.0, 2: 1.0}])

    assert np.isnan(of_arm(alignment, "difference", lambda grades, _: dcg(grades, "exponential"))).all()


def test_users_of_whom_nothing_is_known_are_undefined_in_every_arm() -> None:
    alignment = slow.aligned([([1, 2], [2, 1]), ([1], [2]), ([], []), ([], [1])], [{}, {1: 0.0}, {1: 1.0}, {1: 1.0}])

    for arm, last in (("baseline", 0.0), ("candidate", 1.0), ("difference", 1.0)):
        np.testing.assert_array_equal(of_arm(alignment, arm, lambda grades, _: cg(grades)), [math.nan] * 3 + [last])


def test_an_alignment_without_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="without labels"):
        of_arm(align(reference.batch([([1], [1])])), "difference", lambda grades, _: cg(grades))


RANKING = st.lists(st.integers(0, 14), unique=True, max_size=12)
GRADES = st.dictionaries(st.integers(0, 14), st.sampled_from([0.0, 0.25, 1.0, 2.0, 3.0, 7.5]), max_size=12)
CASES = st.lists(st.tuples(RANKING, RANKING, GRADES), min_size=1, max_size=6)
Case = tuple[list[int], list[int], dict[int, float]]


def batch(cases: list[Case], k: int | None = None) -> PairBatch:
    return slow.labelled([(a, b) for a, b, _ in cases], [known for _, _, known in cases], k)


def scores(batch: PairBatch, arm: str = "difference") -> np.ndarray:
    alignment = align(batch)
    return np.stack(
        [
            of_arm(alignment, arm, lambda grades, _: cg(grades)),
            of_arm(alignment, arm, lambda grades, _: dcg(grades, "linear")),
            of_arm(alignment, arm, lambda grades, _: dcg(grades, "exponential")),
            of_arm(alignment, arm, lambda grades, labels: ndcg(grades, labels.ideal, "linear")),
            of_arm(alignment, arm, lambda grades, labels: ndcg(grades, labels.ideal, "exponential")),
            of_arm(alignment, arm, lambda grades, labels: recall(grades, labels.relevant)),
            of_arm(alignment, arm, lambda grades, _: reciprocal_rank(grades)),
            of_arm(alignment, arm, lambda grades, labels: average_precision(grades, labels.relevant)),
        ]
    )


@given(known=GRADES.filter(lambda known: any(known.values())), k=st.integers(1, 12))
def test_the_ideal_list_has_ndcg_one(known: dict[int, float], k: int) -> None:
    best = sorted(known, key=lambda item: -known[item])[:k]

    found = scores(batch([(best, best, known)], k), "candidate")

    assert found[3:5].tolist() == [[1.0], [1.0]]


@given(ranking=RANKING.filter(lambda ranking: len(ranking) > 1), data=st.data())
def test_moving_a_better_item_up_never_lowers_a_score(ranking: list[int], data: st.DataObject) -> None:
    known = data.draw(GRADES.filter(lambda known: any(known.values())))
    place = data.draw(st.integers(1, len(ranking) - 1))
    above, below = ranking[place - 1], ranking[place]
    swapped = [*ranking[: place - 1], below, above, *ranking[place + 1 :]]
    better = known.get(below, 0) >= known.get(above, 0)

    found = scores(batch([(ranking, swapped, known)]))

    assert (found >= -1e-12).all() if better else (found <= 1e-12).all()


def draw(count: int, seed: int, *, even: bool) -> list[tuple[int, Case]]:
    chance = random.Random(seed)  # noqa: S311 - test data
    cases = []
    for i, (a, b) in enumerate(reference.draw(count, seed, even=even)):
        k = reference.SHORT[i % len(reference.SHORT)]
        graded = chance.sample(range(4 * k), chance.randint(0, 4 * k))
        cases.append((k, (a, b, {item: chance.choice((0.0, 1.0, 2.0, 3.0, 4.0, 0.5)) for item in graded})))
    return cases


def expected(k: int, ranking: list[int], known: dict[int, float]) -> list[float]:
    return [
        slow.cg(ranking, known),
        slow.dcg(ranking, known, "linear"),
        slow.dcg(ranking, known, "exponential"),
        slow.ndcg(ranking, known, k, "linear"),
        slow.ndcg(ranking, known, k, "exponential"),
        slow.recall(ranking, known),
        slow.reciprocal_rank(ranking, known),
        slow.average_precision(ranking, known),
    ]


@pytest.mark.parametrize("even", [True, False])
def test_every_measure_is_its_definition(even: bool) -> None:
    cases = draw(1400, 1, even=even)
    for k in {k for k, _ in cases}:
        group = [case for its_k, case in cases if its_k == k and any(case[2].values()) and (case[0] or case[1])]
        whole = batch(group, k)
        for arm in ("baseline", "candidate"):
            lists = [(a if arm == "baseline" else b, known) for a, b, known in group]
            literal = np.array([expected(k, ranking, known) for ranking, known in lists]).T

            np.testing.assert_allclose(scores(whole, arm), literal, rtol=1e-12, atol=1e-12)


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
