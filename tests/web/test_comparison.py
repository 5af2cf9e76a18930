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
