"""Names of segments in series, and which segments are left out if there are too many series. More is in golden.txt."""

import re

from hypothesis import example, given, strategies as st

import published
from export.page import ALERT, scraped
from monitor.boundary.redaction import escape_controls
from monitor.export.exposition import Gauges
from monitor.export.publisher import PrometheusPublisher, choose_segments, removable_segments
from monitor.model.alerts import State
from monitor.model.rankings import ALL, Coverage, CoverageRow


@given(names=st.sets(st.text(min_size=1, max_size=40), min_size=1, max_size=2))
@example(names={"back\\slash", "a=\x1b]0;pwned\x07\x9b2J\x7f"})
@example(names={"a\tb", r"a\tb"})
def test_segments_are_as_many_series_and_a_name_comes_back_but_for_what_a_terminal_obeys(names):
    publisher = PrometheusPublisher(version="1")
    summaries = tuple(published.summary(segment=name) for name in names)
    publisher.publish([published.latest(summaries=summaries, coverage=None, states=())])
    page = scraped(publisher)
    shown = {labels["segment"] for labels in page.labelled("similarity_mean")}

    assert len(shown) == len(names)
    assert not [line for line in page.text.split("\n") if escape_controls(line) != line]
    plain = {name for name in names if escape_controls(name) == name}
    assert {name for name in plain if not re.search(r"\\[xutr]", name)} <= shown


def test_beyond_the_bound_each_comparison_in_its_turn_shows_its_next_segment():
    series = [("panel_users", ()), ("paired_users", ())]
    removable = {"feed": dict.fromkeys(("c=1", "c=2", "c=3"), series), "shop": {"c=9": series}}
    for most in (8, None):
        shown = choose_segments(removable, most)
        assert shown == {"feed": {"c=1", "c=2", "c=3"}, "shop": {"c=9"}}
    assert choose_segments(removable, 7) == {"feed": {"c=1", "c=2"}, "shop": {"c=9"}}


def test_neither_the_whole_nor_what_fires_may_be_left_out_and_the_largest_segment_comes_first():
    gauges = Gauges()
    for segment, users in ((ALL, 99), ("c=1", 5), ("c=2", 9)):
        gauges.set(("feed", segment), panel_users=users)
    for alert, state in (("Low", 2), ("Near", 1), ("Well", 0)):
        gauges.set(("feed", alert, "c=1", "critical"), alert_state=state, alert_value=0.5)
    found = removable_segments(gauges)
    assert list(found) == ["c=2", "c=1"]
    quiet = ("feed", "Well", "c=1", "critical")
    assert set(found["c=1"]) == {
        ("panel_users", ("feed", "c=1")),
        ("alert_state", quiet),
        ("alert_value", quiet),
    }


def test_hundreds_of_segments_do_not_pass_the_bound_of_the_page(publisher):
    segments = ["all", *(f"country={number}" for number in range(200))]
    rows = tuple(
        CoverageRow(segment=each, asked=200, paired=190, users_by_reason={}) for each in segments
    )
    summaries = tuple(published.summary(segment=each) for each in segments)
    firing = published.state(segment="country=199")
    quiet = published.state(segment="country=198", state=State.QUIET)
    covered = Coverage(rows=rows)
    latest = published.latest(coverage=covered, summaries=summaries, states=(firing, quiet))

    publisher.register(["home-feed"], [], max_series=150)
    publisher.publish([latest])
    page = scraped(publisher)

    of_segments = [
        labels for _, labels in page.samples if dict(labels).get("segment", "all") != "all"
    ]
    assert 130 < len(of_segments) <= 150 + 5
    assert page.value("series_cut", comparison="home-feed") == 9 * 200 + 5 - (len(of_segments) - 5)
    assert page.value("alert_state", **ALERT | {"segment": "country=199"}) == 2
    assert page.value("alert_state", **ALERT | {"segment": "country=198"}) is None
