"""Every registered metric by name keeps what it declares and what every measure must keep, where published packages err too."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rbo import RankingSimilarity

from kernels import reference
from metrics import known_pairs
from monitor.arm_metrics import ARM_METRICS
from monitor.errors import MetricError
from monitor.kernels import align
from monitor.kernels.rbo.untied import rbo, rbo_truncated
from monitor.kernels.sets import average_overlap
from monitor.metrics import METRICS, Metric, expected_by_chance, parse, score_all
from monitor.metrics.kendall import ExtendedTau, TopkKendall, TopkKendallNormalized
from monitor.metrics.rbo import Persistent, Rbo
from monitor.testing import MetricContract

METRICS_AT_DEPTHS = [kind(depth=depth) for kind in METRICS.values() for depth in (None, 3)]
VARIANTS = [
    *(kind(p=p) for kind in METRICS.values() if issubclass(kind, Persistent) for p in (0.01, 0.5, 0.9999)),
    *(kind(penalty=0.5) for kind in (TopkKendall, TopkKendallNormalized)),
    *(kind(**{name: word}) for kind in METRICS.values() for name, words in kind.choices.items() for word in words),  # type: ignore[arg-type] # words of its own choices
]
EVERY_VARIANT = dict.fromkeys([*METRICS_AT_DEPTHS, *VARIANTS])


class TestEveryVariant(MetricContract):
    @pytest.fixture(params=EVERY_VARIANT, ids=str)
    def metric(self, request: pytest.FixtureRequest) -> Metric:
        found: Metric = request.param
        return found


def test_no_pairs_give_no_scores() -> None:
    assert {str(metric) for metric in METRICS_AT_DEPTHS if known_pairs.scores(metric, [], k=3).shape != (0,)} == set()


@pytest.mark.parametrize("metric", METRICS_AT_DEPTHS, ids=str)
def test_padding_plays_no_part(metric: Metric) -> None:
    rng = np.random.default_rng(7)
    lengths = [(a, b, items) for a in range(11) for b in range(11) for items in (10, 13)]
    pairs = [(rng.permutation(items)[:a].tolist(), rng.permutation(items)[:b].tolist()) for a, b, items in lengths]
    whole = known_pairs.scores(metric, pairs)

    for k in (11, 70):
        np.testing.assert_allclose(known_pairs.scores(metric, pairs, k=k), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in METRICS.values() if kind.need is None], ids=lambda kind: str(kind.name))
def test_a_value_that_is_declared_to_vary_does_so_with_the_length(kind: type[Metric]) -> None:
    tops = [list(range(length)) for length in (2, 3, 10)]
    lists: list[list[known_pairs.Pair]] = [
        [(top, top) for top in tops],
        [(top, [item + 40 for item in top]) for top in tops],
        [(top, []) for top in tops],
    ]
    metric = kind()

    found = [len(set(map(str, known_pairs.scores(metric, pairs)))) > 1 for pairs in lists]

    assert found == [value is None for value in (metric.identical, metric.disjoint, metric.one_empty)]


def test_every_kernel_of_a_measure_has_tests_of_its_own() -> None:
    texts = " ".join(path.read_text() for path in Path(__file__).parents[1].joinpath("kernels").glob("*.py"))
    kernels = {kind.kernel.__name__ for kind in METRICS.values() if hasattr(kind, "kernel")}

    assert {name for name in kernels if name.isidentifier() and not re.search(rf"\b{name}\b", texts)} == set()


@pytest.mark.parametrize("kind", [kind for kind in METRICS.values() if not kind.is_symmetric], ids=lambda kind: str(kind.name))
def test_an_asymmetric_metric_is_not_symmetric_by_accident(kind: type[Metric]) -> None:
    rng = np.random.default_rng(1)
    pairs = [(list(rng.permutation(8)[:6]), list(rng.permutation(8)[:6])) for _ in range(50)]

    there = known_pairs.scores(kind(), pairs)
    back = known_pairs.scores(kind(), [(b, a) for a, b in pairs])

    assert not np.array_equal(there, back, equal_nan=True)


@pytest.mark.parametrize("kind", METRICS.values(), ids=METRICS.keys())
def test_what_stands_below_the_depth_plays_no_part(kind: type[Metric]) -> None:
    cut, rng = 3, np.random.default_rng(8)
    rankings = [[*rng.permutation(13)[:cut].tolist(), *(20 + rng.permutation(6)).tolist()] for _ in range(400)]
    whole = list(zip(rankings[::2], rankings[1::2], strict=True))

    found = known_pairs.scores(kind(depth=cut), whole)
    np.testing.assert_allclose(found, _of_tops(kind, whole, cut), rtol=0, atol=1e-12)


def _of_tops(kind: type[Metric], pairs: Sequence[known_pairs.Pair], cut: int) -> known_pairs.Floats:
    """Scores of the lists cut by hand; what is known of a user, such as the ideal, stays."""
    whole = known_pairs.batch(pairs)
    tops = known_pairs.batch([(a[:cut], b[:cut]) for a, b in pairs])
    known = whole.labels
    assert known is not None
    assert tops.labels is not None
    labels = type(known)(grades=tops.labels.grades, ideal=known.ideal[:, :cut], relevant=known.relevant)
    (found,) = score_all(replace(tops, labels=labels), [kind()]).values()
    return found


UNIVERSAL = [kind() for kind in METRICS.values() if kind.one_empty is not None and not math.isnan(kind.one_empty)]


@pytest.mark.parametrize("metric", UNIVERSAL, ids=str)
def test_a_replaced_item_never_makes_identical_lists_more_alike(metric: Metric) -> None:
    for length in range(1, 11):
        top = list(range(length))
        replaced = [[*top[:rank], 50, *top[rank + 1 :]] for rank in range(length)]

        same, *others = known_pairs.scores(metric, [(top, top), *((top, changed) for changed in replaced)])

        assert all(other <= same if metric.higher_is_more_alike else other >= same for other in others)


@pytest.mark.parametrize("kind", [kind for kind in METRICS.values() if kind.need], ids=lambda kind: str(kind.name))
def test_a_metric_that_is_not_told_what_it_needs_says_so(kind: type[Metric]) -> None:
    with pytest.raises(MetricError, match=f"needs {kind.need}"):
        score_all(reference.batch([([1, 2], [2, 1])]), [kind()])


FOLDER = Path(__file__).parents[2] / "monitor" / "metrics"
GUIDE = (FOLDER / "README.md").read_text()


def test_the_guide_tells_of_every_measure() -> None:
    assert {name for name in (*METRICS, *ARM_METRICS) if f"`{name}`" not in GUIDE} == set()


def test_every_measure_that_the_guide_writes_with_parameters_can_be_read() -> None:
    named = re.findall(r"`((\w+)\([^`]*\))`", GUIDE)

    written = [text for text, name in named if name in METRICS]
    assert "rbo(p=0.68)" in written
    for text in written:
        parse(text)


@pytest.mark.parametrize(("catalogue", "expected"), [(10, 0.63), (20, -0.18), (50, -0.67), (100, -0.84), (1000, -0.98)])
def test_chance_is_as_the_guide_says(catalogue: int, expected: float) -> None:
    found = expected_by_chance(parse("extended_tau"), 10, catalogue)

    assert found is not None
    assert round(found, 2) == expected
    assert str(expected).replace("-", "\N{MINUS SIGN}") in GUIDE


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("extended_tau", "extended_tau"),
        ("extended_tau@10", "extended_tau@10"),
        ("overlap()", "overlap"),
        ("rbo", "rbo(p=0.9)"),
        ("rbo()", "rbo(p=0.9)"),
        ("rbo(p=0.90)", "rbo(p=0.9)"),
        (" rbo ( p = .5 ) @ 3 ", "rbo(p=0.5)@3"),
        ("rbo(p=9e-1)@05", "rbo(p=0.9)@5"),
        ("rbo@5", "rbo(p=0.9)@5"),
        ("ndcg", "ndcg(arm=difference, gain=linear)"),
        ("ndcg( gain = exponential )@10", "ndcg(arm=difference, gain=exponential)@10"),
        ("ndcg_vs_baseline", "ndcg_vs_baseline(gain=linear)"),
        ("topk_kendall(penalty=0.5)@10", "topk_kendall(penalty=0.5)@10"),
        ("generalized_footrule", "generalized_footrule(discount=dcg)"),
    ],
)
def test_a_name_has_one_canonical_form(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@given(p=st.floats(0, 1, exclude_min=True, exclude_max=True), depth=st.none() | st.integers(1, 10**9 - 1))
def test_what_prints_parses_to_the_same_metric(p: float, depth: int | None) -> None:
    for metric in (Rbo(p=p, depth=depth), ExtendedTau(depth=depth)):
        assert parse(str(metric)) == metric


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rboo", "unknown metric 'rboo'; did you mean 'rbo'?"),
        ("Extended_Tau", "unknown metric 'Extended_Tau'; did you mean 'extended_tau'?"),
        ("zzz", "unknown metric 'zzz'; `rankwatch metrics` lists all"),
        ("rbo(P=0.9)", "metric rbo has no parameter 'P'; did you mean 'p'?"),
        ("rbo(q=0.9)", "metric rbo has no parameter 'q'; known: p"),
        ("overlap(p=1)", "metric overlap has no parameter 'p'; it takes none"),
        (
            "ndcg(arm=both)",
            "parameter 'arm' of metric 'ndcg(arm=both)' must be one of difference, baseline, candidate, not 'both'",
        ),
        *(
            (
                f"{name}(discount=steep)",
                f"parameter 'discount' of metric '{name}(discount=steep)' must be one of dcg, hyperbolic, not 'steep'",
            )
            for name in ("position_weighted_kendall_distance", "generalized_kendall_distance", "generalized_footrule")
        ),
        ("rbo(0.9)", "cannot read '0.9' in metric 'rbo(0.9)': write parameters as name=value, such as rbo(p=0.9)"),
        ("overlap(3)", "cannot read '3' in metric 'overlap(3)': write parameters as name=value; overlap takes none"),
        ("rbo(p=x)", "parameter 'p' of metric 'rbo(p=x)' must be a number, not 'x'"),
        ("rbo(p=nan)", "parameter 'p' of metric 'rbo(p=nan)' must be a number, not 'nan'"),
        ("rbo(p=0.5, p=0.6)", "parameter 'p' stands twice in metric 'rbo(p=0.5, p=0.6)'"),
        ("rbo(p=1)", "rbo(p=1.0): p must lie between 0 and 1, both excluded, such as rbo(p=0.9)"),
        ("overlap@0", "overlap@0: the depth must be at least 1"),
    ],
)
def test_a_wrong_name_is_refused_with_what_to_write_instead(text: str, message: str) -> None:
    with pytest.raises(MetricError) as refused:
        parse(text)

    assert str(refused.value) == message


@pytest.mark.parametrize(
    "text", ["", " ", "rbo(", "rbo)", "rbo(p=0.9)@", "rbo@-1", "rbo@1.5", "rbo(p=(1))", "rbo p", "rbo(p=0.9)x"]
)
def test_what_has_no_name_s_shape_is_refused(text: str) -> None:
    with pytest.raises(MetricError, match="cannot read metric"):
        parse(text)


@pytest.mark.parametrize("text", ["r" * 100_000, "rbo(" + "p=1," * 20_000 + ")"])
def test_a_name_of_any_length_is_refused_in_one_short_line(text: str) -> None:
    with pytest.raises(MetricError, match=r"^cannot read metric 'r.{39}'\.\.\.: it has [0-9,]+ characters") as refused:
        parse(text)

    assert len(str(refused.value)) < 130


Items = Sequence[int]
FIVE, TEN = range(5), range(10)


def ours(a: Items, b: Items, p: float) -> float:
    return float(rbo(align(reference.batch([(a, b)])), p)[0])


def test_the_rbo_package_truncates_plain_rbo_takes_two_empty_lists_for_one_and_stops_at_the_shorter_one() -> None:
    top = list(range(5))

    theirs = RankingSimilarity(top, top).rbo(p=0.9)

    assert theirs == pytest.approx(1 - 0.9**5, abs=1e-12)
    assert rbo_truncated(align(reference.batch([(top, top)])), 0.9)[0] == pytest.approx(theirs, abs=1e-12)
    assert ours(top, top, 0.9) == 1.0
    assert RankingSimilarity([], []).rbo_ext(p=0.9) == 1
    assert math.isnan(ours([], [], 0.9))
    assert RankingSimilarity([1], [1, 2]).rbo(p=1.0) == 1.0
    assert average_overlap(align(reference.batch([([1], [1, 2])])))[0] == 0.75


@pytest.mark.parametrize(
    ("a", "b", "p", "right"),
    [
        # ranked-overlap 0.1.0 takes the short list as if it had ended in nothing: the often copied 0.885, 0.256 and 0.099.
        ([1, 2, 3, 4, 5, 6, 7], [1, 3, 2, 4, 5, 7, 6, 8], 0.9, 0.9451585),
        ([1], range(1, 101), 0.9, 1.0),
        ([0], range(20), 0.98, 1.0),
        # dlukes/rbo divides by the mean of the lengths below the shorter list: 1.045 and 0.843.
        ([1, 2, 3], [1], 0.4, 1.0),
        ([1], [1, 2], 0.98, 1.0),
        # lenskit divides what it truncates by the weights that it saw: 0.899 for identical lists, and 0.813.
        (FIVE, FIVE, 0.85, 1.0),
        (TEN, [1, 0, *range(2, 10)], 0.85, 0.85),
        # ragrawal/measures, widely ported, has the wrong overlap in equation 32's second sum: 0.399.
        ([9], [*range(9), 9, *range(10, 40)], 0.98, 0.0306429),
    ],
)
def test_a_published_rbo_errs_where_ours_is_right(a: Items, b: Items, p: float, right: float) -> None:
    assert ours(a, b, p) == pytest.approx(right, abs=1e-7)
