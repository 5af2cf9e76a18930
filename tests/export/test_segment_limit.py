"""Which segments a page leaves out when there are too many series."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

import published
from export.page import scraped
from monitor.export import PrometheusPublisher
from monitor.export.exposition import Gauges
from monitor.export.publisher import choose_segments, removable_segments
from monitor.model.alerts import State
from monitor.model.rankings import ALL, Coverage, CoverageRow


def cut(users: dict[tuple[str, str], int], most: int | None) -> tuple[set[tuple[str, str]], dict[str, int]]:
    """Segments that are shown, ``all`` aside, and how many series of each comparison are not, of two series a segment."""
    gauges: dict[str, Gauges] = defaultdict(Gauges)
    for (comparison, segment), asked in users.items():
        gauges[comparison].set("panel_users", (comparison, segment), asked)
        gauges[comparison].set("paired_users", (comparison, segment), asked)
    found = {comparison: removable_segments(each) for comparison, each in gauges.items()}
    shown = choose_segments(found, most)
    left_out = {
        name: sum(len(one.samples) for segment, one in of_one.items() if segment not in shown[name])
        for name, of_one in found.items()
    }
    return {(name, each) for name, segments in shown.items() for each in segments}, left_out


SHOP = {("feed", ALL): 9, ("feed", "c=1"): 5, ("feed", "c=2"): 4, ("feed", "c=3"): 3, ("shop", ALL): 2, ("shop", "c=9"): 1}


def test_nothing_is_cut_within_the_bound() -> None:
    for most in (8, None):
        assert cut(SHOP, most) == ({key for key in SHOP if key[1] != ALL}, {"feed": 0, "shop": 0})


def test_the_largest_segments_stay_each_comparison_in_its_turn() -> None:
    assert cut(SHOP, 6) == ({("feed", "c=1"), ("feed", "c=2"), ("shop", "c=9")}, {"feed": 2, "shop": 0})


def test_segments_of_one_size_stay_by_name_so_that_pages_agree() -> None:
    assert cut({("feed", "c=2"): 4, ("feed", "c=1"): 4, ("feed", "c=3"): 4}, 4)[0] == {("feed", "c=1"), ("feed", "c=2")}


def test_neither_the_whole_nor_what_fires_may_be_left_out() -> None:
    gauges = Gauges()
    gauges.set("panel_users", ("feed", ALL), 9)
    gauges.set("panel_users", ("feed", "c=1"), 5)
    for alert, state in (("Low", 2), ("Near", 1), ("Well", 0)):
        gauges.set("alert_state", ("feed", alert, "c=1", "critical"), state)
        gauges.set("alert_value", ("feed", alert, "c=1", "critical"), 0.5)

    (found,) = removable_segments(gauges).values()

    quiet = ("feed", "Well", "c=1", "critical")
    assert set(found.samples) == {("panel_users", ("feed", "c=1")), ("alert_state", quiet), ("alert_value", quiet)}


@given(
    users=st.dictionaries(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from([ALL, *(f"s={n}" for n in range(9))])), st.integers(0, 9)
    ),
    most=st.integers(0, 40),
)
def test_no_more_than_the_bound_stays_and_all_that_went_is_counted(users: dict[tuple[str, str], int], most: int) -> None:
    shown, left_out = cut(users, most)

    assert 2 * len(shown) <= most
    assert sum(left_out.values()) == 2 * (sum(segment != ALL for _, segment in users) - len(shown))


def test_a_thousand_segments_do_not_pass_the_bound_of_the_page(publisher: PrometheusPublisher) -> None:
    segments = ["all", *(f"country={number}" for number in range(1000))]
    rows = tuple(CoverageRow(segment=each, asked=200, paired=190, reasons={}) for each in segments)
    summaries = tuple(published.summary(segment=each) for each in segments)
    firing, quiet = published.state(segment="country=999"), published.state(segment="country=998", state=State.QUIET)
    latest = published.latest(coverage=Coverage(rows=rows), summaries=summaries, states=(firing, quiet))

    publisher.watch(["home-feed"], [], max_series=700)
    publisher.publish([latest])
    page = scraped(publisher)

    of_segments = [labels for _, labels in page.samples if dict(labels).get("segment", "all") != "all"]
    alert = {"comparison": "home-feed", "alert": "SimilarityLow", "severity": "critical"}
    assert 680 < len(of_segments) <= 700 + 5
    assert page.value("series_cut", comparison="home-feed") == 9 * 1000 + 5 - (len(of_segments) - 5)
    assert page.value("alert_state", segment="country=999", **alert) == 2
    assert page.value("alert_state", segment="country=998", **alert) is None
