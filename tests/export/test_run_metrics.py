"""Gauges of the newest finished runs, and which segments are left out where there are too many series."""

import re
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import published
from export.page import scraped
from monitor.export.exposition import Gauges
from monitor.export.publisher import PrometheusPublisher, choose_segments, removable_segments
from monitor.model.alerts import Outcome, State
from monitor.model.rankings import ALL, Coverage, CoverageRow
from monitor.model.rules import Severity
from monitor.model.runs import RunStatus
from monitor.redaction import escape_controls

ALERT = {
    "comparison": "home-feed",
    "alert": "SimilarityLow",
    "segment": "all",
    "severity": "critical",
}


def test_a_summary_shows_as_gauges_with_its_exact_numbers(publisher):
    publisher.publish([published.latest()])
    assert not scraped(publisher).lacks("""
        similarity_mean{comparison="home-feed",segment="all",metric="rbo(p=0.9)"} 0.625
        similarity_standard_error{comparison="home-feed",segment="all",metric="rbo(p=0.9)"} 0.015625
        similarity_quantile{comparison="home-feed",segment="all",metric="rbo(p=0.9)",q="0.05"} 0.25
        similarity_quantile{comparison="home-feed",segment="all",metric="rbo(p=0.9)",q="0.5"} 0.6
        similarity_share_below_ratio{comparison="home-feed",segment="all",metric="rbo(p=0.9)",floor="0.3"} 0.125
        similarity_users{comparison="home-feed",segment="all",metric="rbo(p=0.9)"} 188
        similarity_undefined_users{comparison="home-feed",segment="all",metric="rbo(p=0.9)"} 2
        similarity_mean{comparison="home-feed",segment="country=UK",metric="rbo(p=0.9)"} 0.5
    """)


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.INSUFFICIENT, RunStatus.ABANDONED])
def test_a_run_that_is_not_ok_shows_its_status_and_coverage_and_when_one_was_ok_but_no_similarity(
    publisher, status
):
    earlier = published.SLOT - timedelta(days=1)
    publisher.publish([published.latest(run=published.run(status=status), last_ok_at=earlier)])
    page = scraped(publisher)
    assert not {name for name in page.names() if name.startswith("rankwatch_similarity")}
    absent = {f"alert_{part}" for part in ("value", "users", "expected")} | {
        "arm_metric",
        "similarity_by_chance",
    }
    assert not {f"rankwatch_{name}" for name in absent} & page.names()
    assert not page.lacks("""
        alert_judged{comparison="home-feed",alert="SimilarityLow",segment="all",severity="critical"} 0
        alert_state{comparison="home-feed",alert="SimilarityLow",segment="all",severity="critical"} 2
        alert_threshold{comparison="home-feed",alert="SimilarityLow",segment="all",severity="critical"} 0.35
        paired_users{comparison="home-feed",segment="all"} 190
        unlabelled_runs{comparison="home-feed"} 3
    """)
    assert (
        page.value("run_last_slot_timestamp_seconds", comparison="home-feed")
        == published.SLOT.timestamp()
    )
    assert (
        page.value("run_last_ok_timestamp_seconds", comparison="home-feed") == earlier.timestamp()
    )
    shown = [
        name
        for name in FINISHED
        if page.value("run_status", comparison="home-feed", status=name) == 1
    ]
    assert shown == [status]


FINISHED = ("ok", "insufficient", "failed", "abandoned")


def test_a_run_that_failed_before_it_knew_its_coverage_shows_none(publisher):
    failed = published.run(status=RunStatus.FAILED)
    publisher.publish(
        [published.latest(run=failed, coverage=None, summaries=(), states=(), last_ok_at=None)]
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


def test_coverage_shows_every_reason_for_all_and_only_what_occurred_elsewhere(publisher):
    publisher.publish([published.latest()])
    page = scraped(publisher)
    of_uk = [
        labels for labels in page.labelled("coverage_users") if labels["segment"] == "country=UK"
    ]
    assert not page.lacks("""
        panel_users{comparison="home-feed",segment="all"} 200
        coverage_users{comparison="home-feed",segment="all",arm="candidate",reason="missing"} 10
        coverage_users{comparison="home-feed",segment="all",arm="baseline",reason="timeout"} 0
    """)
    assert (
        len([labels for labels in page.labelled("coverage_users") if labels["segment"] == "all"])
        == 30
    )
    assert of_uk == [
        {"comparison": "home-feed", "segment": "country=UK", "arm": "baseline", "reason": "short"}
    ]


def segments_shown(*names: str) -> list[str]:
    publisher = PrometheusPublisher(version="1")
    summaries = tuple(published.summary(segment=name) for name in names)
    publisher.publish([published.latest(summaries=summaries, coverage=None, states=())])
    return [labels["segment"] for labels in scraped(publisher).labelled("similarity_mean")]


@given(
    name=st.text(
        st.characters(codec="utf-8").filter(lambda each: escape_controls(each) == each),
        min_size=1,
        max_size=40,
    )
)
@example(name="back\\slash")
def test_any_segment_name_comes_back_from_the_page_as_it_was(name):
    """But for one that looks like a character spelled out, of which the next test knows."""
    assume(not re.search(r"\\[xutr]", name))

    assert segments_shown(name) == [name]


@given(
    names=st.sets(st.text(r"a\tx09bs" + "\t\x0b", min_size=1, max_size=6), min_size=2, max_size=2)
)
@example(names={"a\tb", r"a\tb"})
def test_two_segments_are_two_series_whatever_characters_they_have(names):
    assert len(set(segments_shown(*names))) == 2


def test_an_arm_metric_shows_for_each_arm_and_an_undefined_one_is_absent(publisher):
    undefined = published.arm_score(metric="novelty", value=None, n=0)
    publisher.publish(
        [replace(published.latest(), arm_scores=(*published.latest().arm_scores, undefined))]
    )
    page = scraped(publisher)
    assert not page.lacks("""
        arm_metric{comparison="home-feed",segment="all",metric="catalogue_coverage",arm="baseline"} 0.75
        arm_metric{comparison="home-feed",segment="all",metric="catalogue_coverage",arm="candidate"} 0.125
    """)
    assert {labels["metric"] for labels in page.labelled("arm_metric")} == {"catalogue_coverage"}


def test_chance_shows_what_two_random_lists_would_give(publisher):
    tau, unknown = (
        published.summary(metric="extended_tau"),
        published.summary(metric="of_a_newer_version"),
    )
    publisher.publish(
        [published.latest(run=published.run(catalogue_size=100), summaries=(tau, unknown))]
    )
    page = scraped(publisher)
    assert page.value(
        "similarity_by_chance", comparison="home-feed", metric="extended_tau"
    ) == pytest.approx(-0.83, abs=0.01)
    assert [labels["metric"] for labels in page.labelled("similarity_by_chance")] == [
        "extended_tau"
    ]


@pytest.mark.parametrize("changes", [{"catalogue_size": None}, {"catalogue_size": 5}, {"k": None}])
def test_without_a_catalogue_of_k_items_chance_is_absent(publisher, changes):
    publisher.publish([published.latest(run=published.run(**changes))])

    assert "rankwatch_similarity_by_chance" not in scraped(publisher).names()


def test_the_distribution_of_all_users_adds_up_bin_by_bin(publisher):
    publisher.publish([published.latest()])
    page = scraped(publisher)
    assert not page.lacks("""
        similarity_distribution_bucket{comparison="home-feed",metric="rbo(p=0.9)",le="0.25"} 40
        similarity_distribution_bucket{comparison="home-feed",metric="rbo(p=0.9)",le="0.5"} 60
        similarity_distribution_bucket{comparison="home-feed",metric="rbo(p=0.9)",le="0.75"} 88
        similarity_distribution_bucket{comparison="home-feed",metric="rbo(p=0.9)",le="+Inf"} 188
        similarity_distribution_gcount{comparison="home-feed",metric="rbo(p=0.9)"} 188
        similarity_distribution_gsum{comparison="home-feed",metric="rbo(p=0.9)"} 117.5
    """)
    assert len(page.labelled("similarity_distribution_bucket")) == 4


def test_a_comparison_that_never_ran_is_known_to_have_no_status(publisher):
    publisher.watch(["home-feed", "search"], [])
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


@pytest.mark.parametrize("line", STATES.strip().splitlines())
def test_an_alert_shows_its_state_its_figures_and_what_is_normal_and_whether_its_verdict_speaks_of_similarity(
    publisher, line
):
    state, outcome, severity, number, judged = line.split()
    told = published.state(
        state=State(state), outcome=Outcome(outcome), severity=Severity(severity)
    )
    publisher.publish([published.latest(states=(told,))])

    page, alert = scraped(publisher), ALERT | {"severity": severity}
    assert (page.value("alert_state", **alert), page.value("alert_judged", **alert)) == (
        int(number),
        int(judged),
    )
    shown = {
        "value": 0.25,
        "users": 188,
        "threshold": 0.35,
        "expected": 0.625,
        "normal_lower": 0.5,
        "normal_upper": 0.75,
    }
    assert {name: page.value(f"alert_{name}", **alert) for name in shown} == shown


def test_a_comparison_that_is_not_published_again_is_gone_whole(publisher):
    publisher.publish([published.latest(), published.named("search")])
    assert 'comparison="home-feed"' in scraped(publisher).text
    publisher.publish([published.named("search")])
    page = scraped(publisher)
    assert "home-feed" not in page.text
    assert page.value("run_status", comparison="search", status="ok") == 1


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


def cut(
    users: dict[tuple[str, str], int], most: int | None
) -> tuple[set[tuple[str, str]], dict[str, int]]:
    """Segments that are shown, ``all`` aside, and how many series of each comparison are not, of two series a segment."""
    gauges: dict[str, Gauges] = defaultdict(Gauges)
    for (comparison, segment), asked in users.items():
        for name in ("panel_users", "paired_users"):
            gauges[comparison].set(name, (comparison, segment), asked)
    found = {comparison: removable_segments(each) for comparison, each in gauges.items()}
    shown = choose_segments(found, most)
    left_out = {
        name: sum(len(one) for segment, one in of_one.items() if segment not in shown[name])
        for name, of_one in found.items()
    }
    return {(name, each) for name, segments in shown.items() for each in segments}, left_out


SHOP = {
    ("feed", ALL): 9,
    ("feed", "c=1"): 5,
    ("feed", "c=2"): 4,
    ("feed", "c=3"): 3,
    ("shop", ALL): 2,
    ("shop", "c=9"): 1,
}


def test_nothing_is_cut_within_the_bound_and_beyond_it_the_largest_segments_stay_each_comparison_in_its_turn():
    for most in (8, None):
        assert cut(SHOP, most) == ({key for key in SHOP if key[1] != ALL}, {"feed": 0, "shop": 0})
    assert cut(SHOP, 6) == (
        {("feed", "c=1"), ("feed", "c=2"), ("shop", "c=9")},
        {"feed": 2, "shop": 0},
    )


def test_neither_the_whole_nor_what_fires_may_be_left_out():
    gauges = Gauges()
    for segment in (ALL, "c=1"):
        gauges.set("panel_users", ("feed", segment), 9)
    for alert, state in (("Low", 2), ("Near", 1), ("Well", 0)):
        gauges.set("alert_state", ("feed", alert, "c=1", "critical"), state)
        gauges.set("alert_value", ("feed", alert, "c=1", "critical"), 0.5)
    (found,) = removable_segments(gauges).values()
    quiet = ("feed", "Well", "c=1", "critical")
    assert set(found) == {
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
    firing, quiet = (
        published.state(segment="country=199"),
        published.state(segment="country=198", state=State.QUIET),
    )
    latest = published.latest(
        coverage=Coverage(rows=rows), summaries=summaries, states=(firing, quiet)
    )

    publisher.watch(["home-feed"], [], max_series=150)
    publisher.publish([latest])
    page = scraped(publisher)

    of_segments = [
        labels for _, labels in page.samples if dict(labels).get("segment", "all") != "all"
    ]
    assert 130 < len(of_segments) <= 150 + 5
    assert page.value("series_cut", comparison="home-feed") == 9 * 200 + 5 - (len(of_segments) - 5)
    assert page.value("alert_state", **ALERT | {"segment": "country=199"}) == 2
    assert page.value("alert_state", **ALERT | {"segment": "country=198"}) is None
