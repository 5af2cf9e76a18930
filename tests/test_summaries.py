import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from monitor.model import EvidenceKind, Panel, Statistic
from monitor.summaries import choose_evidence, rows_of_segments, summarize_one, summarize_segments


def test_a_summary_holds_the_hand_worked_figures() -> None:
    found = summarize_one("all", "m", np.array([0.1, 0.2, 0.3, 0.8, np.nan]), (0, 1), [Statistic.parse("share_below(0.3)")])
    assert (found.n, found.n_undefined) == (4, 1)
    assert found.mean == pytest.approx(0.35)
    assert found.standard_error == pytest.approx(0.155456318)
    assert found.value("p50") == pytest.approx(0.25)
    assert found.value("share_below(0.3)") == 0.5
    assert found.value("p37") is None
    assert sum(found.histogram.counts) == 4
    assert found.histogram.counts[-8] == 1


def test_without_a_defined_score_there_is_no_mean_and_no_statistic() -> None:
    found = summarize_one("all", "m", np.array([np.nan]), (-1, 1))
    assert (found.n, found.n_undefined, found.mean, found.standard_error) == (0, 1, None, None)
    assert found.statistics == {}
    assert sum(found.histogram.counts) == 0


def test_one_user_has_a_mean_and_no_standard_error() -> None:
    found = summarize_one("all", "m", np.array([0.5]), (-1, 1))
    assert (found.mean, found.standard_error) == (0.5, None)


def test_both_ends_of_the_range_stand_in_the_outer_bins() -> None:
    counts = summarize_one("all", "m", np.array([-1.0, 1.0, 1.0]), (-1, 1)).histogram.counts
    assert (counts[0], counts[-1], sum(counts)) == (1, 2, 3)


scores = hnp.arrays(np.float64, st.integers(2, 60), elements=st.floats(-1, 1))


@given(scores)
def test_the_order_of_users_changes_not_one_bit(values: np.ndarray) -> None:
    shuffled = np.random.default_rng(0).permutation(values)
    assert summarize_one("all", "m", values, (-1, 1)) == summarize_one("all", "m", shuffled, (-1, 1))


@given(scores)
def test_figures_agree_with_scipy_and_numpy(values: np.ndarray) -> None:
    found = summarize_one("all", "m", values, (-1, 1))
    assert found.mean == pytest.approx(np.mean(values), abs=1e-12)
    assert found.standard_error == pytest.approx(stats.sem(values), abs=1e-12)
    assert found.value("p05") == pytest.approx(np.percentile(values, 5), abs=1e-12)
    assert sum(found.histogram.counts) == len(values)


def test_segments_hold_the_paired_users_that_belong_to_them() -> None:
    panel = Panel(
        users=pd.Index(list("abcd"), dtype="str"),
        segments={"all": np.arange(4), "x=1": np.array([0, 1]), "x=2": np.array([2, 3]), "x=3": np.array([1])},
    )
    segments = rows_of_segments(panel, np.array([0, 2, 3]))
    found = summarize_segments(segments, {"m": np.array([0.1, 0.2, 0.4])}, ranges={"m": (0, 1)}, wanted={})
    assert [(each.segment, each.n, each.mean) for each in found] == [
        ("all", 3, pytest.approx(0.7 / 3)),
        ("x=1", 1, 0.1),
        ("x=2", 2, pytest.approx(0.3)),
        ("x=3", 0, None),
    ]


def test_evidence_is_the_worst_and_the_most_ordinary_without_overlap() -> None:
    values = np.array([0.5, 0.1, np.nan, 0.9, 0.1, 0.6, 0.4])
    chosen = choose_evidence(values, 2)
    assert chosen == [
        (EvidenceKind.WORST, 0, 1),
        (EvidenceKind.WORST, 1, 4),
        (EvidenceKind.REPRESENTATIVE, 0, 0),
        (EvidenceKind.REPRESENTATIVE, 1, 6),
    ]


@pytest.mark.parametrize("values", [[], [np.nan], [0.3]])
def test_evidence_of_few_users_is_what_there_is(values: list[float]) -> None:
    assert len(choose_evidence(np.array(values), 5)) == int(np.sum(~np.isnan(np.array(values))))


def test_the_worst_of_a_distance_are_its_highest() -> None:
    chosen = choose_evidence(np.array([0.5, 9.0, np.nan, 9.0, 0.0, 2.0]), 2, higher_is_more_alike=False)
    assert [(kind, row) for kind, _, row in chosen] == [
        (EvidenceKind.WORST, 1),
        (EvidenceKind.WORST, 3),
        (EvidenceKind.REPRESENTATIVE, 5),
        (EvidenceKind.REPRESENTATIVE, 0),
    ]


@pytest.mark.parametrize(
    ("values", "bounds", "ends"),
    [
        ([1.0, 4.0, 2.0], (0.0, np.inf), (0.0, 4.0)),
        ([-1.0, 4.0], (-np.inf, np.inf), (-1.0, 4.0)),
        ([-3.0, -1.0], (-np.inf, 0.0), (-3.0, 0.0)),
        ([5.0, 5.0], (-np.inf, np.inf), (5.0, 6.0)),
        ([0.0], (0.0, np.inf), (0.0, 1.0)),
        ([], (0.0, np.inf), (0.0, 1.0)),
        ([np.nan], (-np.inf, np.inf), (0.0, 1.0)),
    ],
)
def test_without_bounds_the_histogram_spans_what_was_seen(
    values: list[float], bounds: tuple[float, float], ends: tuple[float, float]
) -> None:
    found = summarize_one("all", "m", np.array(values), bounds)
    assert (found.histogram.low, found.histogram.high) == ends
    assert sum(found.histogram.counts) == found.n == int(np.isfinite(values).sum())
