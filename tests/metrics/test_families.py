"""Declarations of the families of metrics, and `score_all`."""

import math
import pkgutil
from abc import ABC
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from kernels import (
    reference,
    reference_relevance as slow,
    test_against_references,
    test_worked_values,
)
from metrics import known_pairs
from monitor.measures import metrics
from monitor.measures.kernels import alignment
from monitor.measures.kernels.engines.choice import ENGINE_VARIABLE
from monitor.measures.kernels.rbo.untied import rbo_weight
from monitor.measures.metrics import (
    METRICS as REGISTRY,
    expected_by_chance,
    parse,
    score_all,
    scores as scoring,
)
from monitor.measures.metrics.metric import Metric
from monitor.measures.metrics.rbo import Rbo, RboA, RboB, RboMax, RboMin, RboRes, RboTruncated, RboW
from monitor.model.errors import MetricError
from tables import cells


def test_chance_of_long_lists_from_a_large_catalogue_is_exact():
    # 1,000 of a million items share one item on average: P(z >= 2) is 1 - 2 / e.
    found = expected_by_chance("kendall_distance", 1000, 1_000_000)
    assert found == pytest.approx(0.25 / (1 - 2 / math.e), rel=2e-3)


def test_chance_is_not_worked_out_where_the_formula_would_cost_too_much():
    assert expected_by_chance("position_weighted_kendall_distance", 5000, 6000) is None


def test_a_penalty_out_of_range_is_refused():
    for name in ["topk_kendall", "topk_kendall_normalized"]:
        kind: Any = REGISTRY[name]
        for penalty in (-0.1, 1.1, math.nan):
            with pytest.raises(MetricError, match="between 0 and 1"):
                kind(penalty=penalty)


TEN = list(range(10))
FARTHEST = {"reversed": TEN[::-1], "disjoint": list(range(10, 20))}
MOST = """
kendall_distance           reversed  45
footrule                   reversed  50
topk_kendall(penalty=0.5)  disjoint  145
topk_footrule              disjoint  110
"""


def test_bounds_of_ten_items_are_reached():
    for name, farthest, most in cells(MOST):
        metric = parse(name)
        assert metric.bounds(10) == (0.0, float(most))
        assert known_pairs.scores(metric, [(TEN, FARTHEST[farthest])])[0] == float(most)


every_kind = pytest.mark.parametrize(
    "kind", [Rbo, RboA, RboB, RboMax, RboMin, RboRes, RboTruncated, RboW]
)


@every_kind
def test_a_persistence_beyond_its_range_is_refused_under_the_metrics_own_name(kind):
    for p in (0.0, 1.0, math.nan, math.inf, -0.1):
        with pytest.raises(
            MetricError, match=rf"{kind.name}\(p={p}\): p must be .*, such as {kind.name}\(p=0.9\)"
        ):
            kind(p=p)


@pytest.mark.parametrize("kind", [RboMax, RboMin, RboRes, RboTruncated])
@pytest.mark.parametrize("p", [0.3, 0.9, 0.99])
def test_the_bounds_are_tight(kind, p):
    for k in (1, 3, 10, 60):
        top = range(k)

        found = known_pairs.scores(kind(p=p), [(top, top), (top, range(k, 2 * k)), (top, [])], k=k)

        assert [found.min(), found.max()] == pytest.approx(kind(p=p).bounds(k), abs=1e-14)


def test_bounds_look_no_deeper_than_the_depth():
    assert RboMin(depth=3).bounds(10) == RboMin().bounds(3)
    assert RboMin().bounds(10)[1] == pytest.approx(rbo_weight(0.9, 10), abs=1e-14)
    assert RboTruncated().bounds(10)[1] == pytest.approx(1 - 0.9**10, abs=1e-14)
    assert Rbo().bounds(10) == (0.0, 1.0)


def test_the_bounds_of_very_long_lists_keep_their_order():
    # What rounding left of one rank's weight, times 100,000 items in common, lifted the least above
    # the rest.
    batch = reference.batch(
        [(list(range(100_000)), [*range(200_000, 201_000), *range(1000, 100_000)])]
    )

    scores = score_all(batch, [kind(p=0.9) for kind in (RboMin, Rbo, RboMax)])
    least, middle, most = (score for (score,) in scores.values())

    assert 0 <= least <= middle <= most < 1e-12


@every_kind
def test_any_p_between_0_and_1_gives_a_score_in_range(kind):
    for p in (5e-324, 1e-300, 1e-17, 1 - 2**-53):
        pairs = [([1, 2, 3], [1, 3]), ([1], [1]), ([1], [2]), (list(range(99)), list(range(99)))]

        found = known_pairs.scores(kind(p=p), pairs)

        assert ((found >= 0) & (found <= 1)).all(), p


OF_LABELS = ("cg", "dcg", "map", "mrr", "ndcg", "recall")
SIX = dict(enumerate([3.0, 2.0, 3.0, 0.0, 1.0, 2.0]))


def score(name, known, baseline, candidate):
    batch = slow.labelled([(baseline, candidate)], [known])
    (scores,) = score_all(batch, [parse(name)]).values()
    return float(scores[0])


OF_SIX = """
cg(arm=baseline)                     11
# Not 16.047, as often copied.
dcg(arm=baseline, gain=exponential)  13.848
ndcg(arm=baseline)                   0.961
ndcg                                 0.039
# Of the five relevant items the last two are at ranks 5 and 6: (1 + 1 + 1 + 4/5 + 5/6) / 5.
map(arm=baseline)                    0.927
mrr(arm=baseline)                    1
recall(arm=baseline)@4               0.6
"""


def test_every_metric_has_values_worked_by_hand_and_a_reference():
    worked = {name for _, values in test_worked_values.BATCHES for name in values}
    worked |= {name for name, _ in cells(OF_SIX)}
    references = {*OF_LABELS}  # test_relevance compares them
    for measures, *_ in test_against_references.CASES.values():
        references |= measures.keys()
    for file, names in {"worked_values": worked, "against_references": references}.items():
        missing = REGISTRY.keys() - {parse(name).name for name in names}
        assert not missing, f"add it to a table in tests/kernels/test_{file}.py"


def test_every_class_of_a_metric_is_registered():
    kinds = set()
    for module in pkgutil.walk_packages(metrics.__path__, f"{metrics.__name__}."):
        for each in vars(import_module(module.name)).values():
            if isinstance(each, type) and issubclass(each, Metric) and ABC not in each.__bases__:
                kinds.add(each)
    assert kinds == set(REGISTRY.values()), "add the module to METRICS"


def test_the_six_grades_through_the_whole_way():
    for name, expected in cells(OF_SIX):
        found = score(name, SIX, list(range(6)), [0, 2, 1, 5, 4, 3])
        assert found == pytest.approx(float(expected), abs=5e-4)


def test_the_better_candidate_is_above_zero_and_of_an_unknown_user_nothing_is_said():
    for name in OF_LABELS:
        known = {1: 2.0, 2: 1.0}
        better, worse = [1, 8, 9], [7, 8, 9]

        assert score(name, known, worse, better) == -score(name, known, better, worse) > 0
        assert math.isnan(score(name, {}, [1, 2], [2, 1]))
        assert math.isnan(score(name, {1: 1.0}, [], []))


def test_grades_that_sum_up_to_infinity_warn_of_nothing():
    for name in [*OF_LABELS, "dcg(gain=exponential)", "ndcg(gain=exponential)"]:
        found = score(name, {0: 1.7e308, 1: 1.7e308}, [0, 1], [1, 2, 0])

        assert found == math.inf or math.isnan(found) or abs(found) <= 1.7e308


PAIRS = reference.draw(14, 1, even=False)
METRICS = [
    parse(name)
    for name in (
        "extended_tau",
        "rbo(p=0.8)",
        "overlap",
        "rbo(p=0.8)@2",
        "overlap@2",
        "extended_tau@100",
    )
]


def test_scores_have_canonical_names_in_the_requested_order():
    found = score_all(
        reference.batch(PAIRS), [parse("rbo(p=0.80)@2"), parse("overlap"), parse("rbo(p=0.8)@2")]
    )

    assert list(found) == ["rbo(p=0.8)@2", "overlap"]
    assert all(scores.dtype == np.float64 and scores.shape == (14,) for scores in found.values())


def test_a_single_pair_has_the_same_bits_as_among_other_pairs():
    rng = np.random.default_rng(5)
    rows = rng.random((20, 90)).argsort(axis=1)[:, :60].tolist()
    pairs, every = (
        list(zip(rows[:10], rows[10:], strict=True)),
        [kind() for kind in REGISTRY.values()],
    )
    together = score_all(known_pairs.batch(pairs), every)

    for row, pair in enumerate(pairs):
        for name, scores in score_all(known_pairs.batch([pair]), every).items():
            np.testing.assert_array_equal(scores, together[name][[row]], err_msg=name)


@pytest.mark.parametrize(
    "engine",
    ["numpy", *(pytest.param(each, marks=pytest.mark.integration) for each in ("auto", "numba"))],
)
def test_neither_the_engine_nor_threads_nor_blocks_change_a_bit(engine, monkeypatch):
    batch = reference.batch(reference.draw(100, 4, even=False, lengths=(52,)))
    monkeypatch.setenv(ENGINE_VARIABLE, "numpy")
    expected = score_all(batch, METRICS, threads=1)
    monkeypatch.setenv(ENGINE_VARIABLE, engine)

    for threads, block_cells in ((1, 1_000), (2, 1_000), (5, 51)):
        monkeypatch.setattr(alignment, "BLOCK_CELLS", block_cells)
        for name, scores in score_all(batch, METRICS, threads=threads).items():
            np.testing.assert_array_equal(
                scores, expected[name], err_msg=f"{name}, {threads} threads"
            )


def test_an_error_in_a_thread_ends_the_whole(monkeypatch):
    def fail(_):
        raise MemoryError

    monkeypatch.setattr(scoring, "align", fail)
    monkeypatch.setattr(alignment, "BLOCK_CELLS", 8)

    with pytest.raises(MemoryError):
        score_all(reference.batch(PAIRS), METRICS, threads=2)
