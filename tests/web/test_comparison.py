"""The pages for people: whole, linked, and harmless whatever names come from outside."""

from dataclasses import replace

import pytest

import published
from monitor.model import LatestRun
from monitor.web.comparison import render_comparison, render_index


@pytest.fixture
def latest() -> LatestRun:
    return published.latest()


def test_the_index_links_each_comparison_and_what_machines_read(latest: LatestRun) -> None:
    page = render_index([latest])
    assert f'href="comparisons/{latest.run.comparison}"' in page
    assert all(f'href="{path}"' in page for path in ("metrics", "-/healthy", "-/ready"))


def test_without_a_finished_run_the_index_says_so() -> None:
    assert "No run has ended yet." in render_index([])


def test_a_page_shows_every_segment_metric_alert_and_reason(latest: LatestRun) -> None:
    page = render_comparison(latest)
    for summary in latest.summaries:
        assert f"<td>{summary.metric}</td>" in page
    for state in latest.states:
        assert f"<td>{state.alert}</td>" in page
    assert "Coverage" in page


def test_names_from_outside_stay_text(latest: LatestRun) -> None:
    evil = '<script>alert(1)</script>"&{{7*7}}'
    summaries = tuple(replace(summary, segment=evil) for summary in latest.summaries)
    states = tuple(replace(state, segment=evil, reason=evil) for state in latest.states)
    page = render_comparison(replace(latest, run=replace(latest.run, reason=evil), summaries=summaries, states=states))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_page_shows_chance_with_its_catalogue_both_arms_and_what_waits_for_labels(latest: LatestRun) -> None:
    page = render_comparison(latest)
    assert "<th>by chance</th>" in page
    assert "two random lists of 10 from a catalogue of 1,000 items" in page
    assert "<td>0.0065</td>" in page  # of rbo(p=0.9)
    assert "<td>catalogue_coverage</td><td>0.7500</td><td>0.1250</td><td>190</td>" in page
    assert "Relevance: waiting for labels until 2024-01-15T00:00:00Z; 3 runs wait." in page


def test_a_page_says_when_relevance_was_measured_and_nothing_where_none_is_wanted(latest: LatestRun) -> None:
    labelled = replace(latest.run, labelled_at=latest.run.slot)
    assert "Relevance: labelled 2024-01-08T00:00:00Z." in render_comparison(replace(latest, run=labelled))
    without = replace(latest.run, labels_until=None, catalogue_size=None)
    page = render_comparison(replace(latest, run=without))
    assert "Relevance" not in page
    assert "random lists" not in page
