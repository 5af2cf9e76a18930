"""Which segments a page leaves out when there are too many series."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import published
from monitor.export import PrometheusPublisher
from monitor.export.families import Gauges
from monitor.export.run_metrics import cut_segments
from monitor.model import ALL, Coverage, CoverageRow, State

Scrape = Callable[[PrometheusPublisher], Any]


def _gauges(users: dict[tuple[str, str], int]) -> Gauges:
    """Two series a segment: its users, and those that could be paired."""
    gauges = Gauges()
    for (comparison, segment), asked in users.items():
        gauges.set("panel_users", (comparison, segment), asked)
        gauges.set("paired_users", (comparison, segment), asked)
    return gauges


def _shown(gauges: Gauges) -> set[tuple[str, ...]]:
    return set(gauges.samples["panel_users"])


def test_nothing_is_cut_within_the_bound() -> None:
    gauges = _gauges({("feed", ALL): 9, ("feed", "c=1"): 5, ("feed", "c=2"): 4})

    assert cut_segments(gauges, 4) == {}
    assert len(_shown(gauges)) == 3


def test_the_largest_segments_stay_each_comparison_in_its_turn() -> None:
    gauges = _gauges(
        {("feed", ALL): 9, ("feed", "c=1"): 5, ("feed", "c=2"): 4, ("feed", "c=3"): 3, ("shop", ALL): 2, ("shop", "c=9"): 1}
    )

    left_out = cut_segments(gauges, 6)

    assert _shown(gauges) == {("feed", ALL), ("feed", "c=1"), ("feed", "c=2"), ("shop", ALL), ("shop", "c=9")}
    assert left_out == {"feed": 2}
    assert set(gauges.samples["paired_users"]) == _shown(gauges)


def test_segments_of_one_size_stay_by_name_so_that_pages_agree() -> None:
    gauges = _gauges({("feed", "c=2"): 4, ("feed", "c=1"): 4, ("feed", "c=3"): 4})

    cut_segments(gauges, 4)

    assert _shown(gauges) == {("feed", "c=1"), ("feed", "c=2")}


def test_with_no_room_at_all_the_whole_and_what_fires_are_still_there() -> None:
    gauges = _gauges({("feed", ALL): 9, ("feed", "c=1"): 5})
    for alert, state in (("Low", 2), ("Near", 1), ("Well", 0)):
        gauges.set("alert_state", ("feed", alert, "c=1", "critical"), state)
        gauges.set("alert_value", ("feed", alert, "c=1", "critical"), 0.5)

    left_out = cut_segments(gauges, 0)

    assert left_out == {"feed": 4}
    assert _shown(gauges) == {("feed", ALL)}
    assert {labels[1] for labels in gauges.samples["alert_state"]} == {"Low", "Near"}
    assert {labels[1] for labels in gauges.samples["alert_value"]} == {"Low", "Near"}


@given(
    users=st.dictionaries(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from([ALL, *(f"s={n}" for n in range(9))])), st.integers(0, 9)
    ),
    most=st.integers(0, 40),
)
def test_no_more_than_the_bound_stays_and_all_that_went_is_counted(users: dict[tuple[str, str], int], most: int) -> None:
    gauges = _gauges(users)

    left_out = cut_segments(gauges, most)

    kept = [labels for name in ("panel_users", "paired_users") for labels in gauges.samples.get(name, {})]
    assert sum(1 for labels in kept if labels[1] != ALL) <= most
    assert sum(left_out.values()) == 2 * len(users) - len(kept)
    assert all(("panel_users" not in gauges.samples) or key in gauges.samples["panel_users"] for key in users if key[1] == ALL)


def test_a_thousand_segments_do_not_pass_the_bound_of_the_page(publisher: PrometheusPublisher, scrape: Scrape) -> None:
    segments = ["all", *(f"country={number}" for number in range(1000))]
    rows = tuple(CoverageRow(segment=each, asked=200, paired=190, reasons={}) for each in segments)
    summaries = tuple(published.summary(segment=each) for each in segments)
    firing, quiet = published.state(segment="country=999"), published.state(segment="country=998", state=State.QUIET)
    latest = published.latest(coverage=Coverage(rows=rows), summaries=summaries, states=(firing, quiet))

    publisher.watch(["home-feed"], [], max_series=700)
    publisher.publish([latest])
    page = scrape(publisher)

    of_segments = [labels for _, labels in page.samples if dict(labels).get("segment", "all") != "all"]
    alert = {"comparison": "home-feed", "alert": "SimilarityLow", "severity": "critical"}
    assert 680 < len(of_segments) <= 700 + 5
    assert page.value("series_cut", comparison="home-feed") == 9 * 1000 + 5 - (len(of_segments) - 5)
    assert page.value("alert_state", segment="country=999", **alert) == 2
    assert page.value("alert_state", segment="country=998", **alert) is None
