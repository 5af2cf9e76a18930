"""A report: the pages in one file, whole without a server, whatever names come from outside; titles of items in it."""

import re
from functools import partial
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest

import factories
import published
from factories import DAY, HOUR, HeldClock
from monitor.model.errors import SourceError
from monitor.service.title_cache import TitleCache
from monitor.web.pages import report
from monitor.web.pages.rendering import show_instant
from monitor.web.pages.report import make_report
from monitor.web.pages.site import AbsentPageError
from servers.chromium import shown_in_browser
from storage.worked import claimed
from web.stored_pages import EVIL, SLOTS, fill, words_of
from web.test_pages import ITEM_URL, watched


def values(page, name):
    """Of an attribute, wherever it is."""
    return {unescape(value) for value in re.findall(rf'<[^>]*\s{name}="([^"]*)"', page)}


def written(store, name="home-feed", titles=None, *, is_reachable=False, **chosen):
    site = published.site(
        store=store,
        clock=HeldClock(SLOTS[-1]),
        comparisons=watched(name, item_url=ITEM_URL if titles else None),
        titles=titles or (lambda *_: {EVIL: EVIL, "i2": "Tea"}),
        is_reachable=is_reachable,
    )
    return make_report(site, name, **chosen)


def test_every_link_leads_to_a_part_of_the_file_and_nothing_is_asked_of_a_server(filled):
    page = written(filled)
    anchors = values(page, "id")
    assert {link.removeprefix("#") for link in values(page, "href")} <= anchors
    assert {"part-0", "part-1", "part-2"} <= anchors
    assert not re.search(r"<(form|link|img|iframe)\b", page)
    assert not values(page, "src") | values(page, "action") | values(page, "data-live")
    for said in ("home-feed", "User u1", "Tea", "See what changed for whom", "catalogue_coverage"):
        assert said in words_of(page)
    assert "Runbook: SimilarityLow</p>" in page
    assert "https://runbooks.test/similarity" in values(written(filled, is_reachable=True), "href")


def test_an_earlier_run_is_shown_as_it_was_then(filled):
    for slot, is_firing in ((SLOTS[-1], True), (SLOTS[1], False)):
        page = written(filled, slot=slot)
        assert show_instant(slot) in words_of(page).partition("over time")[0]
        assert ("pill firing" in values(page, "class")) is is_firing
        # The figures of an alert are those of the reported run, and not those of its beginning.
        assert page.count("<h2>Each arm</h2>") == 1
    assert "home-feed as judged" in written(filled)
    assert show_instant(SLOTS[2]) not in words_of(page)


def test_over_a_time_the_runs_in_which_alerts_began_are_shown_too(store):
    fill(store)
    slot = SLOTS[-1] + DAY
    later = claimed(store, slot)
    with pytest.raises(AbsentPageError, match="has not ended"):
        written(store, slot=slot)
    result = published.result(claim=later, finished_at=slot, summaries=(factories.summary(),))
    assert store.runs.finish(result, receivers=())
    text = written(store, since=SLOTS[1])
    runs = re.findall(r"(?<=>)run of [^<]+", text)
    assert runs[:2] == [f"run of {show_instant(slot)}", f"run of {show_instant(SLOTS[-1])}"]
    over_time = text.partition('<section id="part-1">')[0]
    assert [f">{show_instant(slot)}:" in over_time for slot in SLOTS[:2]] == [False, True]
    assert show_instant(SLOTS[-1]) in words_of(written(store, until=SLOTS[-1] + HOUR))


def test_names_from_outside_stay_text(stores):
    text = written(stores[EVIL], EVIL)
    assert re.findall(r"<script[^>]*>", text) == ['<script type="module">']
    assert not set(text) & {"\u202e", "\x1b"}
    assert "{{7*7}}" in text


@pytest.mark.slow
def test_a_browser_shows_a_report_without_a_network(stores, tmp_path, chromium):
    file = tmp_path / "report.html"
    file.write_text(written(stores[EVIL], EVIL))
    shown = shown_in_browser(chromium, file)
    assert shown["has_script"], "its own script runs"
    assert shown["border"] == "1px", "its own style is in force"


def test_users_are_left_out_and_counted_where_the_file_would_become_large(filled, monkeypatch):
    monkeypatch.setattr(report, "MOST_REPORT_BYTES", 1000)
    text = written(filled)
    assert "1 more users are left out" in text
    assert "User u1" not in text
    assert 'class="thumbs"' in text


class Source:
    """Titles of all items, while it is not away."""

    is_away = True

    def __init__(self):
        self.asked = []

    def titles(self, _slot, items):
        self.asked.append(items)
        if self.is_away:
            msg = "catalogue.csv: no such file"
            raise SourceError(msg)
        return {item: f"Title of {item}" for item in items}


def cache_of(source, clock):
    watched: Any = {"home-feed": SimpleNamespace(sources=SimpleNamespace(titles=source))}
    return partial(TitleCache(clock.monotonic).find, watched)


def test_a_report_keeps_the_links_of_items_and_waits_for_dead_titles_once(filled):
    source = Source()
    text = written(filled, titles=cache_of(source, HeldClock()), since=SLOTS[0])
    assert ITEM_URL.replace("{item}", "i2") in values(text, "href")
    assert len(source.asked) == 1


def test_titles_that_are_back_are_shown_after_a_minute():
    source, clock = Source(), HeldClock()
    cache = cache_of(source, clock)

    def titles(*items):
        return cache("home-feed", SLOTS[0], items)

    assert titles("i1") == titles("i2") == {}
    source.is_away = False
    clock.seconds += 59
    assert (titles("i1"), len(source.asked)) == ({}, 1)
    clock.seconds += 1
    assert titles("i1", "i2") == {"i1": "Title of i1", "i2": "Title of i2"}
    assert (titles("i1"), len(source.asked)) == ({"i1": "Title of i1"}, 2)
