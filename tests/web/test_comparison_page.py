"""The pages for people: whole, linked, and harmless whatever names come from outside."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import published
from monitor.model import LatestRun
from monitor.web import pages
from monitor.web.pages import render_comparison, render_index


@pytest.fixture
def latest() -> LatestRun:
    return published.latest()


def test_the_index_links_each_comparison_and_what_machines_read(latest: LatestRun) -> None:
    page = render_index([latest])
    assert f'href="comparisons/{latest.run.comparison}"' in page
    assert all(f'href="{path}"' in page for path in ("metrics", "-/healthy", "-/ready"))


def test_without_a_finished_run_the_index_says_so() -> None:
    assert "No run has ended yet." in render_index([])


def test_a_standby_says_so_on_the_index_as_text() -> None:
    page = render_index([], "This daemon stands by: <b>:1 leads.")
    assert "<p>This daemon stands by: &lt;b&gt;:1 leads.</p>" in page
    assert "stands by" not in render_index([])


def test_a_page_shows_every_segment_metric_alert_and_reason(latest: LatestRun) -> None:
    page = render_comparison(latest)
    for summary in latest.summaries:
        assert f"<td>{summary.metric}</td>" in page
    for state in latest.states:
        assert f"<td>{state.alert}</td>" in page
    assert "Coverage" in page


EVIL = '<script>alert(1)</script>"&{{7*7}}'
RENDERED: dict[str, Callable[[LatestRun], str]] = {
    "render_index": lambda latest: render_index([latest], EVIL),
    "render_comparison": render_comparison,
}
"""Every page, of a comparison whose names are hostile; other data that a page shows is to be as hostile."""


@pytest.mark.parametrize("name", [name for name in vars(pages) if name.startswith("render_")])
def test_names_from_outside_stay_text_on_every_page(latest: LatestRun, name: str) -> None:
    assert name in RENDERED, f"RENDERED does not say what {name} is to show"
    summaries = tuple(replace(summary, segment=EVIL) for summary in latest.summaries)
    states = tuple(replace(state, segment=EVIL, reason=EVIL) for state in latest.states)
    run = replace(latest.run, comparison=EVIL, reason=EVIL)
    shown = published.explanation()
    group = replace(shown.groups[0], examples=(replace(shown.groups[0].examples[0], user=EVIL),))
    item, fall = replace(shown.gained[0], item=EVIL, title=EVIL), replace(shown.falls[0], segment=EVIL)
    why = replace(shown, metric=EVIL, sentence=EVIL, segment=EVIL, gained=(item,), falls=(fall,), groups=(group,))
    page = RENDERED[name](replace(latest, run=run, summaries=summaries, states=states, explanation=why))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= {"render_index": 3}.get(name, 19)


def test_no_template_turns_the_escaping_off() -> None:
    templates = list(Path(pages.__file__).with_name("templates").iterdir())
    assert [path.name for path in templates if re.search(r"\|\s*safe\b|autoescape", path.read_text())] == []
    assert templates


def test_a_page_says_why_the_mean_fell(latest: LatestRun) -> None:
    page = render_comparison(latest)
    assert "<h2>Why, by extended_tau against the lists that 18 users had before</h2>" in page
    assert "<p>No clear cause. The mean fell by 0.2500: items replaced 100 %.</p>" in page
    assert "<td>membership</td><td>0.2500</td><td>100%</td>" in page
    assert "<td>country=UK</td><td>25.0%</td><td>25.0%</td><td>0.2500</td><td>100%</td>" in page
    assert "<td>i9</td><td>Tea</td><td>0.5000</td><td>0.0000</td><td>75.0%</td><td>0.0%</td>" in page
    assert "<td>replaced</td><td>9</td><td>50.0%</td><td>25.0%</td><td>0.1250</td><td>u1</td>" in page


def test_a_page_without_a_past_shows_what_sets_lists_apart_and_without_an_explanation_nothing(latest: LatestRun) -> None:
    first = published.explanation(before=None, causes=(), falls=(), paired=0, arm=None)
    page = render_comparison(replace(latest, explanation=first))
    assert "What sets lists apart by extended_tau" in page
    assert "Pieces of the drop" not in page
    assert "Lists, users of" not in render_comparison(replace(latest, explanation=None))


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


def test_a_segment_that_would_turn_the_writing_around_is_spelled_out(latest: LatestRun) -> None:
    hostile = "a=\u202etxt.exe\x1b[2J"
    state = replace(latest.states[0], segment=hostile)

    pages = [render_comparison(replace(latest, states=(state,))), render_index([replace(latest, states=(state,))])]

    assert [page.count("a=\\u202etxt.exe\\x1b[2J") for page in pages] == [1, 1]
    assert not [page for page in pages if "\u202e" in page or "\x1b" in page]
