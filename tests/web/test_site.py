"""The built documentation: every link leads somewhere, from the daemon and from the disk, and everybody can read it.

`make docs` builds it in build/docs.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import published
from alerts_reference import severities
from deploy.shipped import RUNBOOK_BASE, alerts
from monitor.settings.runbooks import OTHER_METRIC, OWN_RULE
from monitor.web.documentation import Documentation
from servers import missing
from web.sites import running
from web.test_browser import find_with_axe, trouble_of

pytestmark = pytest.mark.integration
SITE = Path(__file__).parents[2] / "build/docs"
_LOADED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}
LOOKED_AT = (
    "index",
    "search",
    "tutorials/two-files",
    "how-to/alerting",
    "reference/series",
    "runbooks/index",
    "runbooks/SimilarityDrop",
    "how-to/pages",
)
"""One page of each kind, and those with the widest tables."""


class _Page(HTMLParser):
    """The ids of a page, its links, and the files that it loads."""

    def __init__(self, text):
        super().__init__()
        self.ids = set()
        self.links = set()
        self.loaded = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in _LOADED and given.get("rel") != "canonical":
            self.loaded.add(given.get(_LOADED[tag], ""))


@pytest.fixture(scope="module")
def pages():
    if not (SITE / "index.html").exists():
        missing("build/docs is not there: run make docs")
    return {
        path.relative_to(SITE).as_posix(): _Page(path.read_text()) for path in SITE.rglob("*.html")
    }


def test_every_link_leads_to_a_page_and_a_place_that_are_there(pages):
    broken = []
    for name, page in pages.items():
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            target = name
            if parts.path:
                folder = (SITE / name).parent
                target = (folder / unquote(parts.path)).resolve().relative_to(SITE).as_posix()
            is_there = (SITE / target).is_file()
            if target in pages and parts.fragment:
                is_there = unquote(parts.fragment) in pages[target].ids
            if not is_there:
                broken.append((name, link))
    assert broken == []


def test_no_page_loads_anything_from_another_host_or_has_scripts_and_styles_inside(pages):
    for name, page in pages.items():
        assert not [each for each in page.loaded if urlsplit(each).netloc], name
        text = (SITE / name).read_text()
        assert not re.findall(r"<style| style=|<script(?![^>]*\bsrc=)", text), name


@pytest.mark.usefixtures("pages")
def test_the_runbook_of_every_alert_opens_in_a_daemon():
    names = {*severities(), OTHER_METRIC, OWN_RULE}
    paths = {f"/docs/runbooks/{name}" for name in names}
    paths |= {urlsplit(each.annotations["runbook_url"]).path for each in alerts()}
    assert all(each.annotations["runbook_url"].startswith(RUNBOOK_BASE) for each in alerts())
    with running(published.pages(documentation=Documentation(SITE))) as site:
        closed = [path for path in paths if site.status(path) != 200]
    assert closed == []
    assert len(paths) > 60


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("place", ["daemon", "disk"])
def test_pages_fit_a_telephone_complain_about_nothing_and_axe_finds_nothing(chromium, place):
    found = {}
    with running(published.pages(documentation=Documentation(SITE))) as site:
        for name in LOOKED_AT:
            address = f"http://127.0.0.1:{site.port}/docs/{name}.html"
            if place == "disk":
                address = (SITE / f"{name}.html").as_uri()
            tab = chromium.open_tab(width=390, height=844)
            tab.go(address)
            wrong = find_with_axe(tab) if place == "daemon" else []  # the pages are the same
            too_wide = tab.run("document.documentElement.scrollWidth") - 390
            # The theme's icons are in its style sheet.
            trouble = [
                each for each in trouble_of(chromium, address) if not each.startswith("data:")
            ]
            found[name] = (wrong, too_wide, trouble)
    assert found == dict.fromkeys(LOOKED_AT, ([], 0, []))
