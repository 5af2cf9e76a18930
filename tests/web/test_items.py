"""Items on pages and in reports: by their titles, leading to their own pages; a source of titles that is away is asked once."""

import html
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

import factories
import published
from factories import HeldClock
from monitor.errors import SourceError
from monitor.service.composition import TitleCache
from monitor.storage import SqlStore
from monitor.web.pages.report import make_report
from web.stored_pages import SLOTS, application, browsing, fill
from web.test_pages import EVIL, paths_of

URL = "https://shop.example.com/items/{item}?from=rankwatch&x=1#{item}"
ITEMS = ["sku-1", EVIL, "../admin", "a/b?c#d%2f", "\u202e\u0007", "javascript:alert(1)", "x" * 10_000]


class Source:
    """Titles of all items, until it is away."""

    def __init__(self, *, is_away: bool = False) -> None:
        self.is_away = is_away
        self.asked: list[Collection[str]] = []

    def titles(self, _slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        self.asked.append(items)
        if self.is_away:
            msg = "catalogue.csv: no such file"
            raise SourceError(msg)
        return {item: f"Title of {item}" for item in items}


def cache_of(source: Source, clock: HeldClock) -> TitleCache:
    watched = {"home-feed": SimpleNamespace(arms=SimpleNamespace(titles=source))}
    return TitleCache(lambda: SimpleNamespace(watched=watched), clock.monotonic)  # type: ignore[arg-type, return-value]


def linking(name: str) -> dict[str, Any]:
    return {name: replace(factories.comparison(name=name), item_url=URL)}


def links_in(page: str) -> set[str]:
    return {html.unescape(link) for link in re.findall(r'href="(http[^"]*)"', page)}


@pytest.mark.parametrize("item", ITEMS)
def test_an_item_leads_to_its_own_page_whatever_its_id(store: SqlStore, item: str) -> None:
    fill(store, item=item)
    paths = paths_of("home-feed", "u1")
    titles = lambda *_: {item: "<i>Tea</i>"}  # noqa: E731
    with browsing(application(store, comparisons=lambda: linking("home-feed"), titles=titles)) as ask:
        shown = {path: ask(paths[path]) for path in ("/c/{name}/runs/{slot}", "/c/{name}/users/{user}")}
    mine = URL.replace("{item}", quote(item, safe=""))
    assert [answer.status for answer in shown.values()] == [200, 200]
    for answer in shown.values():
        assert mine in links_in(answer.text)
        assert all(link.startswith("https://shop.example.com/items/") for link in links_in(answer.text))
        assert "<i>" not in answer.text
    lists = shown["/c/{name}/users/{user}"].text
    assert lists.count("&lt;i&gt;Tea&lt;/i&gt; (") == 4, "of both lists, and of one before and now"
    assert lists.count(f'href="{html.escape(mine)}"'.replace("&#x27;", "&#39;")) == 5, (
        "in both lists, in one before and now, and in the table"
    )


def test_a_report_keeps_the_links_and_waits_for_dead_titles_once(store: SqlStore) -> None:
    fill(store)
    source = Source(is_away=True)
    site = published.site(store=store, comparisons=lambda: linking("home-feed"), titles=cache_of(source, HeldClock()))
    text = make_report(site, "home-feed", since=SLOTS[0])
    assert URL.replace("{item}", "i2") in links_in(text)
    assert len(source.asked) == 1


def test_titles_that_are_back_are_shown_after_a_minute() -> None:
    source, clock = Source(is_away=True), HeldClock()
    titles = cache_of(source, clock)
    assert titles("home-feed", SLOTS[0], ["i1"]) == titles("home-feed", SLOTS[0], ["i2"]) == {}
    source.is_away = False
    clock.seconds += 59
    assert (titles("home-feed", SLOTS[0], ["i1"]), len(source.asked)) == ({}, 1)
    clock.seconds += 1
    assert titles("home-feed", SLOTS[0], ["i1", "i2"]) == {"i1": "Title of i1", "i2": "Title of i2"}
    assert (titles("home-feed", SLOTS[0], ["i1"]), len(source.asked)) == ({"i1": "Title of i1"}, 2)
