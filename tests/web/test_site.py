"""The built documentation works from the daemon and from the disk, and everybody can read it.

`make docs` builds it in build/docs. `make docs` and test_documentation.py check its links.
"""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

import published
from alerts_reference import severities
from deploy.shipped import RUNBOOK_BASE, alerts
from monitor.settings.runbooks import OTHER_METRIC, OWN_RULE
from monitor.web.documentation import Documentation
from places import ROOT
from servers import missing
from web.sites import running
from web.test_browser import find_with_axe, trouble_of

pytestmark = pytest.mark.integration
SITE = ROOT / "build/docs"
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


class _Loaded(HTMLParser):
    """The files that a page loads."""

    def __init__(self, text):
        super().__init__()
        self.files = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in _LOADED and given.get("rel") != "canonical":
            self.files.add(given.get(_LOADED[tag]) or "")


@pytest.fixture(scope="module")
def pages():
    """The text of each page, by its path."""
    if not (SITE / "index.html").exists():
        missing("build/docs is not there: run make docs")
    return {path: path.read_text() for path in SITE.rglob("*.html")}


def test_each_page_loads_only_files_of_the_site_and_has_no_scripts_and_styles_inside(pages):
    for path, text in pages.items():
        for file in map(urlsplit, _Loaded(text).files):
            assert not file.netloc, path
            assert not file.path or (path.parent / unquote(file.path)).is_file(), (path, file)
        assert not re.findall(r"<style| style=|<script(?![^>]*\bsrc=)", text), path


@pytest.mark.usefixtures("pages")
def test_the_runbook_of_every_alert_opens_in_a_daemon():
    names = {*severities(), OTHER_METRIC, OWN_RULE}
    paths = {f"/docs/runbooks/{name}" for name in names}
    paths |= {urlsplit(each.annotations["runbook_url"]).path for each in alerts()}
    assert all(each.annotations["runbook_url"].startswith(RUNBOOK_BASE) for each in alerts())
    with running(published.pages(documentation=Documentation(SITE))) as site:
        closed = [path for path in paths if site.status(path) != 200]
    assert not closed
    assert len(paths) > 60


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("place", ["daemon", "disk"])
def test_pages_fit_a_telephone_complain_about_nothing_and_axe_finds_nothing(chromium, place):
    found = {}
    with running(published.pages(documentation=Documentation(SITE))) as site:
        tab = chromium.open_tab(width=390, height=844)
        for name in LOOKED_AT:
            address = f"http://127.0.0.1:{site.port}/docs/{name}.html"
            if place == "disk":
                address = (SITE / f"{name}.html").as_uri()
            tab.go(address)
            wrong = find_with_axe(tab) if place == "daemon" else []  # the pages are the same
            too_wide = tab.run("document.documentElement.scrollWidth") - 390
            # The theme's icons are in its style sheet.
            trouble = [
                each for each in trouble_of(chromium, address) if not each.startswith("data:")
            ]
            found[name] = (wrong, too_wide, trouble)
    assert found == dict.fromkeys(LOOKED_AT, ([], 0, []))
