import numpy as np
import pandas as pd
import pytest
import scipy
from hypothesis import example, given, strategies as st
from hypothesis.extra import numpy as hnp

from factories import panel
from monitor.measures import summaries
from monitor.measures.summaries import (
    ScoreSums,
    SummaryAccumulator,
    representative_rows,
    rows_of_segments,
    summarize_one,
    worst_rows,
)
from monitor.model.statistics import Statistic
from tables import cells

PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99)


def summarize(values, bounds, wanted=()):
    return summarize_one("all", "m", np.array(values, dtype=np.float64), bounds, wanted)


def test_a_summary_holds_the_hand_worked_figures():
    found = summarize([0.1, 0.2, 0.3, 0.8, np.nan], (0, 1), [Statistic.parse("share_below(0.3)")])
    assert found.n == 4
    assert found.n_undefined == 1
    assert found.value("p50") == pytest.approx(0.25)
    assert found.value("share_below(0.3)") == 0.5
    assert found.value("p37") is None
    assert list(found.statistics) == [*(f"p{at:02}" for at in PERCENTS), "share_below(0.3)"]
    assert sum(found.histogram.counts) == 4
    assert found.histogram.counts[-8] == 1


scores = hnp.arrays(np.float64, st.integers(2, 60), elements=st.floats(-1, 1))


@given(scores)
def test_figures_agree_with_scipy_and_numpy(values):
    found = summarize(values, (-1, 1))
    assert found.mean == pytest.approx(np.mean(values), abs=1e-12)
    assert found.standard_error == pytest.approx(scipy.stats.sem(values), abs=1e-12)
    assert found.value("p05") == pytest.approx(np.percentile(values, 5), abs=1e-12)
    assert sum(found.histogram.counts) == len(values)


def test_segments_contain_their_paired_users():
    asked = panel(*"abcd", **{"x=1": [0, 1], "x=2": [2, 3], "x=3": [1]})
    segments = rows_of_segments(asked, np.array([0, 2, 3]))
    found = SummaryAccumulator(tuple(segments), {})
    found.add(segments, {"m": np.array([0.1, 0.2, 0.4])}, {"m": (0, 1)})
    assert [(each.segment, each.n, each.mean) for each in found.summaries()] == [
        ("all", 3, pytest.approx(0.7 / 3)),
        ("x=1", 1, 0.1),
        ("x=2", 2, pytest.approx(0.3)),
        ("x=3", 0, None),
    ]


def test_examples_are_the_worst_and_those_nearest_to_the_median():
    values = np.array([0.5, 0.1, np.nan, 0.9, 0.1, 0.6, 0.4])
    users = pd.Index(list("gfedcba"))
    assert worst_rows(values, users, 1).tolist() == [4]
    assert worst_rows(values, users, 2).tolist() == [4, 1]
    assert worst_rows(values, users, 20).tolist() == [4, 1, 6, 0, 5, 3]
    assert worst_rows(-values, users, 2).tolist() == [3, 5]
    assert representative_rows(values, 3, 0.45).tolist() == [0, 6, 5]
    # Of few users there are few.
    assert (
        worst_rows(values[:0], users[:0], 5).size
        == representative_rows(values[:0], 5, 0.5).size
        == 0
    )
    assert representative_rows(values[2:4], 5, 0.5).tolist() == [1]


SPANS = """
# scores  bounds    ends of the histogram
1 4 2     0 inf     0 4
-1 4      -inf inf  -1 4
-3 -1     -inf 0    -3 0
5 5       -inf inf  5 6
0         0 inf     0 1
none      0 inf     0 1
nan       -inf inf  0 1
"""


def test_without_bounds_the_histogram_spans_the_scores():
    for row in cells(SPANS):
        values, (low, high), ends = (
            [float(each) for each in cell.split() if each != "none"] for cell in row
        )
        found = summarize(values, (low, high))
        assert [found.histogram.low, found.histogram.high] == ends
        assert sum(found.histogram.counts) == found.n == int(np.isfinite(values).sum())


bounded = (-1.0, 1.0)
unbounded = (-np.inf, np.inf)


@given(
    st.lists(st.floats(-1, 1) | st.just(np.nan), min_size=1, max_size=80),
    st.integers(1, 7),
    st.sampled_from([bounded, unbounded]),
    st.sampled_from([10, summaries.EXACT_SCORES]),
)
@example([0.1 * 3.0**power for power in range(12)], 7, unbounded, 10)
@example([1.0, 0.2196698208047556, 1e-05], 2, unbounded, 10)
def test_neither_the_order_nor_the_number_of_parts_changes_one_bit(values, parts, bounds, exact):
    scores = np.array(values)
    wanted = [Statistic.parse("p33"), Statistic.parse("share_below(0.25)")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summaries, "EXACT_SCORES", exact)
        found = ScoreSums(bounds)
        for part in np.array_split(np.random.default_rng(3).permutation(scores), parts):
            found.add(part, wanted)
        assert found.summary("all", "m", wanted) == summarize(scores, bounds, wanted)


def test_quantiles_of_very_many_scores_are_off_by_one_bin_at_most():
    for bounds, scale in [
        ((0.0, 1.0), 1.0),
        ((0.0, np.inf), 1.0),
        ((0.0, np.inf), 37.0),
        (unbounded, 1e-3),
        (unbounded, 37.0),
    ]:
        rng = np.random.default_rng(11)
        # A third of the users have the very same score, as where lists are equal.
        values = scale * np.where(rng.random(50_000) < 1 / 3, 1.0, rng.beta(2, 5, 50_000))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(summaries, "EXACT_SCORES", 1000)
            found = summarize(values, bounds)
        width = (found.histogram.high - found.histogram.low) / summaries.FINE

        for percent in PERCENTS:
            exact = np.percentile(values, percent)
            assert abs((found.value(f"p{percent:02}") or 0.0) - exact) <= 1.01 * width
        counts, _ = np.histogram(
            values, bins=summaries.HISTOGRAM_BINS, range=(found.histogram.low, found.histogram.high)
        )
        assert found.histogram.counts == tuple(counts)


def test_few_scores_have_no_mean_or_no_standard_error_and_scores_at_the_ends_are_in_the_outer_bins():
    nobody, one, three = (summarize(values, (-1, 1)) for values in ([np.nan], [0.5], [-1, 1, 1]))
    assert nobody.n == 0
    assert nobody.n_undefined == 1
    assert nobody.mean is None
    assert not nobody.statistics
    assert one.n == 1
    assert one.mean == 0.5
    assert one.standard_error is None
    assert [three.mean, three.standard_error] == pytest.approx([1 / 3, 2 / 3])
    counts = three.histogram.counts
    assert counts[0] == 1
    assert counts[-1] == 2
    assert sum(counts) == 3
