"""A report: the pages in one file, whole without a server, whatever names come from outside."""

import re
from collections.abc import Mapping
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import factories
import published
from factories import DAY, HeldClock
from monitor.storage import SqlStore
from monitor.web.pages import report
from monitor.web.pages.rendering import show_instant
from monitor.web.pages.report import make_report
from monitor.web.pages.site import AbsentPageError
from servers.chromium import TROUBLE, browsing
from web.stored_pages import SLOTS, fill
from web.test_pages import EVIL, watched


class Document(HTMLParser):
    """What a parser finds: tags with attributes, anchors, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, Mapping[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(name)) is not None]


def written(store: SqlStore, name: str = "home-feed", **chosen: Any) -> str:
    site = published.site(
        store=store, clock=HeldClock(SLOTS[-1]), comparisons=lambda: watched(name), titles=lambda *_: {EVIL: EVIL, "i2": "Tea"}
    )
    return make_report(site, name, **chosen)


def test_every_link_leads_to_a_part_of_the_file_and_nothing_is_asked_of_a_server(store: SqlStore) -> None:
    fill(store)
    found = Document(written(store))
    anchors = set(found.values("id"))
    assert {link.removeprefix("#") for link in found.values("href")} <= anchors
    assert {"part-0", "part-1", "part-2"} <= anchors
    assert not {"form", "link", "img", "iframe"} & {tag for tag, _ in found.tags}
    assert found.values("src") + found.values("action") + found.values("data-live") == []
    words = "".join(found.words)
    for said in ("home-feed", "User u1", "Tea", "What changed, and for whom", "catalogue_coverage"):
        assert said in words


def test_a_run_of_the_past_is_shown_as_it_stood_then(store: SqlStore) -> None:
    fill(store)
    now, then = (Document(written(store, slot=slot)) for slot in (SLOTS[-1], SLOTS[1]))
    heads = ["".join(each.words[: each.words.index("over time")]) for each in (now, then)]
    assert [show_instant(slot) in head for slot, head in zip((SLOTS[-1], SLOTS[1]), heads, strict=True)] == [True, True]
    pills = [[attributes.get("class") for tag, attributes in each.tags if tag == "span"] for each in (now, then)]
    assert ["pill firing" in each for each in pills] == [True, False]
    assert "".join(then.words).count(show_instant(SLOTS[2])) == 0


def test_over_a_time_the_runs_in_which_alerts_began_are_shown_too(store: SqlStore) -> None:
    fill(store)
    later = store.runs.claim(
        "home-feed", SLOTS[-1] + DAY, owner="t", now=SLOTS[-1], until=SLOTS[-1] + DAY, config_hash="", rerun=False
    )
    assert later is not None
    assert store.runs.finish(
        published.result(claim=later, finished_at=SLOTS[-1] + DAY, summaries=(factories.summary(),)), receivers=()
    )
    text = written(store, since=SLOTS[1])
    runs = [word for word in Document(text).words if word.startswith("run of ")]
    assert runs[:2] == [f"run of {show_instant(SLOTS[-1] + DAY)}", f"run of {show_instant(SLOTS[-1])}"]
    over_time = text.partition('<section id="part-1">')[0]
    assert [f">{show_instant(slot)}:" in over_time for slot in SLOTS[:2]] == [False, True]
    assert show_instant(SLOTS[-1]) in "".join(Document(written(store, until=SLOTS[-1] + timedelta(hours=1))).words)


def test_names_from_outside_stay_text(store: SqlStore, tmp_path: Path) -> None:
    fill(store, EVIL, EVIL)
    text = written(store, EVIL)
    assert re.findall(r"<script[^>]*>", text) == ['<script type="module">']
    assert not set(text) & {"\u202e", "\x1b"}
    assert "{{7*7}}" in text
    file = tmp_path / "report.html"
    file.write_text(text)
    with browsing() as browser:
        tab = browser.open_tab()
        tab.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        tab.go(file.as_uri())
        assert tab.run("document.querySelectorAll('script').length") == 1
        assert tab.run("document.getElementById('hover') !== null"), "its own script runs"
        assert tab.run("getComputedStyle(document.querySelector('.card')).borderTopWidth") == "1px", "its own style is in force"
        assert [each for each in browser.events if each["method"] in TROUBLE] == []
        asked = [each["params"]["request"]["url"] for each in browser.events if each["method"] == "Network.requestWillBeSent"]
        assert asked == [file.as_uri()]


def test_users_are_left_out_and_counted_where_the_file_would_become_large(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    monkeypatch.setattr(report, "MOST_BYTES", 1000)
    text = written(store)
    assert "1 more users are left out" in text
    assert "User u1" not in text
    assert 'class="thumbs"' in text


def test_what_was_never_run_is_said(store: SqlStore) -> None:
    with pytest.raises(
        AbsentPageError, match="no finished run of a comparison named 'home-feed' is stored; see rankwatch runs"
    ):
        written(store)
    fill(store)
    with pytest.raises(AbsentPageError, match="no run of home-feed has the slot 2030"):
        written(store, slot=SLOTS[0].replace(year=2030))
    with pytest.raises(AbsentPageError, match="is stored up to 2001"):
        written(store, until=SLOTS[0].replace(year=2001))
