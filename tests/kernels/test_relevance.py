"""Measures of relevance, and labels at the places of lists: worked values, properties, and definitions."""

import math
import random
from functools import partial

import numpy as np
import pytest

from kernels import reference, reference_relevance as slow
from monitor.measures.kernels import labels as module
from monitor.measures.kernels.relevance import cg, dcg, ndcg, of_arm
from monitor.measures.metrics import parse


def column(*grades):
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


def test_users_without_relevance_are_undefined_in_every_arm():
    alignment = slow.aligned(
        [([1, 2], [2, 1]), ([1], [2]), ([], []), ([], [1])], [{}, {1: 0.0}, {1: 1.0}, {1: 1.0}]
    )

    for arm, last in (("baseline", 0.0), ("candidate", 1.0), ("difference", 1.0)):
        np.testing.assert_array_equal(
            of_arm(alignment, arm, lambda grades, _: cg(grades)), [math.nan] * 3 + [last]
        )


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("k", reference.SHORT)
def test_every_measure_is_its_definition_however_the_pairs_are_cut(k, even, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_CELLS", 100)
    definitions = {
        "cg({})": slow.cg,
        "recall({})": slow.recall,
        "mrr({})": slow.reciprocal_rank,
        "map({})": slow.average_precision,
    }
    for gain in ("linear", "exponential"):
        definitions[f"dcg({{}}, gain={gain})"] = partial(slow.dcg, gain=gain)
        definitions[f"ndcg({{}}, gain={gain})"] = partial(slow.ndcg, k=k, gain=gain)
    chance = random.Random(1)  # noqa: S311 - test data
    pairs, users = [], []
    for pair in reference.draw(40, 1, even=even, lengths=(k,), tops=(0, 2**31 - 200)):
        # Negative ones are in no list.
        items = sorted({-2, -1, *range(k), *pair[0], *pair[1]})
        graded = chance.sample(items, chance.randint(0, len(items)))
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


def codes(*rows):
    return reference.padded(rows, 3)[0]


def test_a_table_without_grades_is_one_and_no_pairs_have_no_labels():
    found = slow.label((codes([1]), codes([1])), [0], [[]])
    assert (found.grades.candidate.tolist(), found.ideal.tolist()) == ([[0, 0, 0]], [[0, 0, 0]])
    assert found.relevant.tolist() == [0]
    found = slow.label((codes(), codes()), [], [[(1, 1.0)]])
    assert (found.ideal.shape, found.relevant.shape) == ((0, 3), (0,))
