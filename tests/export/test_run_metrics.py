"""Gauges of the newest finished runs, and which segments are left out where there are too many series."""

import re
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import published
from export.page import ALERT, scraped
from monitor.boundary.redaction import escape_controls
from monitor.export.exposition import Gauges
from monitor.export.publisher import PrometheusPublisher, choose_segments, removable_segments
from monitor.model.alerts import Outcome, State
from monitor.model.rankings import ALL, Coverage, CoverageRow
from monitor.model.rules import Severity
from monitor.model.runs import RunStatus


def test_a_run_that_is_not_ok_shows_its_status_and_coverage_and_when_one_was_ok_but_no_similarity(
    publisher,
):
    for status in [RunStatus.FAILED, RunStatus.INSUFFICIENT, RunStatus.ABANDONED]:
        earlier = published.SLOT - timedelta(days=1)
        publisher.publish([published.latest(status=status, last_ok_at=earlier)])
        page = scraped(publisher)
        assert not {name for name in page.names() if name.startswith("rankwatch_similarity")}
        absent = {f"alert_{part}" for part in ("value", "users", "expected")} | {
            "arm_metric",
            "similarity_by_chance",
        }
        assert not {f"rankwatch_{name}" for name in absent} & page.names()
        assert not page.lacks(f"""
        run_last_slot_timestamp_seconds{{comparison="home-feed"}} {published.SLOT.timestamp()}
        run_last_ok_timestamp_seconds{{comparison="home-feed"}} {earlier.timestamp()}
    """)
        assert not page.lacks("""
        alert_judged{comparison="home-feed",alert="SimilarityLow",segment="all",severity="critical"} 0
        alert_state{comparison="home-feed",alert="SimilarityLow",segment="all",severity="critical"} 2
        alert_threshold{comparison="home-feed",alert="SimilarityLow",segment="all",severity="critical"} 0.35
        paired_users{comparison="home-feed",segment="all"} 190
        unlabelled_runs{comparison="home-feed"} 3
    """)
        finished = {
            name
            for name in FINISHED
            if page.value("run_status", comparison="home-feed", status=name)
        }
        assert finished == {status}


FINISHED = ("ok", "insufficient", "failed", "abandoned")


def test_a_run_that_failed_before_it_knew_its_coverage_shows_none(publisher):
    publisher.publish(
        [
            published.latest(
                status=RunStatus.FAILED, coverage=None, summaries=(), states=(), last_ok_at=None
            )
        ]
    )
    page = scraped(publisher)
    assert (
        not {"rankwatch_panel_users", "rankwatch_paired_users", "rankwatch_coverage_users"}
        & page.names()
    )
    assert "rankwatch_run_last_ok_timestamp_seconds" not in page.names()
    assert (
        page.value("run_last_finished_timestamp_seconds", comparison="home-feed")
        == published.SLOT.timestamp() + 4
    )


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
    assert [line for line in page.text.split("\n") if escape_controls(line) != line] == []
    plain = {name for name in names if escape_controls(name) == name}
    assert {name for name in plain if not re.search(r"\\[xutr]", name)} <= shown


def test_an_undefined_arm_metric_is_absent(publisher):
    undefined = published.arm_score(metric="novelty", value=None, n=0)
    publisher.publish([published.latest(arm_scores=(published.arm_score(), undefined))])
    (labels,) = scraped(publisher).labelled("arm_metric")
    assert labels["metric"] == "catalogue_coverage"


def test_chance_shows_what_two_random_lists_would_give(publisher):
    tau, unknown = (
        published.summary(metric="extended_tau"),
        published.summary(metric="of_a_newer_version"),
    )
    publisher.publish([published.latest(catalogue_size=100, summaries=(tau, unknown))])
    page = scraped(publisher)
    assert page.value(
        "similarity_by_chance", comparison="home-feed", metric="extended_tau"
    ) == pytest.approx(-0.83, abs=0.01)
    assert [labels["metric"] for labels in page.labelled("similarity_by_chance")] == [
        "extended_tau"
    ]


def test_without_a_catalogue_of_k_items_chance_is_absent(publisher):
    for changes in [{"catalogue_size": None}, {"catalogue_size": 5}, {"k": None}]:
        publisher.publish([published.latest(**changes)])

        assert "rankwatch_similarity_by_chance" not in scraped(publisher).names()


def test_a_comparison_that_never_ran_is_known_to_have_no_status(publisher):
    publisher.register(["home-feed", "search"], [])
    publisher.publish([published.latest()])
    page = scraped(publisher)
    assert {
        page.value("run_status", comparison="search", status=status) for status in FINISHED
    } == {0.0}
    assert page.value("run_status", comparison="home-feed", status="ok") == 1
    assert page.value("run_last_finished_timestamp_seconds", comparison="search") is None


STATES = """
quiet    ok       critical  0 1
pending  breach   warning   1 1
firing   no_data  info      2 0
quiet    too_few  info      0 0
firing   error    warning   2 0
"""


def test_an_alert_shows_its_state_its_figures_and_what_is_normal_and_whether_its_verdict_speaks_of_similarity(
    publisher,
):
    for line in STATES.strip().splitlines():
        state, outcome, severity, number, judged = line.split()
        told = published.state(
            state=State(state), outcome=Outcome(outcome), severity=Severity(severity)
        )
        publisher.publish([published.latest(states=(told,))])

        page, alert = scraped(publisher), ALERT | {"severity": severity}
        assert page.value("alert_state", **alert) == int(number)
        assert page.value("alert_judged", **alert) == int(judged)
        assert page.value("alert_value", **alert) == 0.25


def test_what_has_no_value_shows_none_and_an_unknown_statistic_is_left_out(publisher):
    nobody = published.summary(
        n=0,
        n_undefined=5,
        mean=None,
        standard_error=None,
        statistics={"winsorized": 1.0, "p05": 0.25},
    )
    publisher.publish(
        [published.latest(summaries=(nobody,), states=(published.state(value=None),))]
    )
    page = scraped(publisher)
    assert not page.lacks("""
        similarity_users{comparison="home-feed",segment="all",metric="rbo(p=0.9)"} 0
        similarity_undefined_users{comparison="home-feed",segment="all",metric="rbo(p=0.9)"} 5
    """)
    absent = {
        "rankwatch_similarity_mean",
        "rankwatch_similarity_standard_error",
        "rankwatch_alert_value",
    }
    assert not absent & page.names()
    assert [labels["q"] for labels in page.labelled("similarity_quantile")] == ["0.05"]


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
        gauges.set("panel_users", ("feed", segment), users)
    for alert, state in (("Low", 2), ("Near", 1), ("Well", 0)):
        gauges.set("alert_state", ("feed", alert, "c=1", "critical"), state)
        gauges.set("alert_value", ("feed", alert, "c=1", "critical"), 0.5)
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
