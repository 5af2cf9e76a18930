"""The pages of a real daemon in Chromium: complete, without errors or requests to other hosts, and usable by everybody.

Lists of one segment are replaced by the popular items from the eighth of nine days on; the last day is today.
"""

import json
import shutil
import signal
import subprocess
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from drift_lists import arm_folder, run_cli, write_config
from factories import DAY
from monitor.model.instants import utc_now
from servers import require
from servers.chromium import TROUBLE
from servers.daemon import serving, wait_for

pytestmark = pytest.mark.slow
AXE = Path(__file__).parent / "axe"
DAYS = 9
COMPARISON = """
  - name: {name}
    every: 1d
    k: 10
    baseline: {{file: {{path: "{folder}/baseline/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}
    candidate: {{file: {{path: "{folder}/{name}/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}
    users: {{all: true, segments: [activity, country]}}
    metrics: [extended_tau, "rbo(p=0.9)"]
    rules: default
    keep_lists: all
"""


CUT_TABLES = """[...document.querySelectorAll('table')].filter((table) => {
    const box = table.parentElement, cells = [...table.querySelectorAll('th, td')];
    const isCut = table.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== 'auto';
    return isCut || cells.some((each) => each.clientWidth && each.scrollWidth > each.clientWidth + 1);
}).map((table) => table.innerText.slice(0, 80))"""
"""Tables that are wider than their place and do not scroll, or with a cell that is wider than its column."""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A daemon after a replay of the days up to today."""
    folder, today = tmp_path_factory.mktemp("site"), utc_now().date()
    days = [today - number * DAY for number in reversed(range(DAYS))]
    names = ("seg2-nonUK-pop", "ok-seed")
    for arm in ("baseline", *names):
        (folder / arm).mkdir()
        for number, day in enumerate([*days, today + DAY], start=1):  # midnight may come
            shutil.copy(
                arm_folder(arm) / f"{date(2024, 1, number)}.parquet",
                folder / arm / f"{day}.parquet",
            )
    config = write_config(folder, *(COMPARISON.format(name=name, folder=folder) for name in names))
    run_cli(
        "replay",
        "--since",
        f"{days[0]}T00:00:00Z",
        "--until",
        f"{today}T00:00:00Z",
        "--config",
        str(config),
        "--json",
    )
    config.write_text(
        f'{config.read_text()}receivers: [{{webhook: {{url: "http://127.0.0.1:9/nobody"}}}}]\n'
    )
    with serving(config) as daemon:
        assert daemon.status_of("/-/ready") == 200
        config.write_text("comparisons: []\n")
        daemon.send(signal.SIGHUP)
        wait_for(
            lambda: "refused" in requests.get(daemon.url, timeout=60).text,
            "a refused configuration",
        )
        yield daemon.url


@pytest.fixture(scope="module")
def addresses(url):
    """Every page by its template."""
    fires = requests.get(f"{url}/api/v1/alerts", timeout=60).json()["firing_incidents"][0]
    run = f"{url}/c/{fires['comparison']}/runs/{fires['started_at'][:10]}T00:00:00Z"
    shown = requests.get(run.replace("/c/", "/api/v1/comparisons/"), timeout=60).json()
    worst = shown["worst"][0]["user"]
    return {
        "overview": f"{url}/",
        "comparison": f"{url}/c/{fires['comparison']}",
        "quiet comparison": f"{url}/c/ok-seed",
        "run": run,
        "user": f"{url}/c/{fires['comparison']}/users/{worst}?slot={run.rpartition('/')[2]}",
        "alerts": f"{url}/alerts",
        "alerts that were chosen": f"{url}/alerts?severity=info&text=x&before=9",
        "alert": f"{url}/alerts/{fires['incident']}",
        "daemon": f"{url}/daemon",
        "absent": f"{url}/c/nope",
    }


def trouble_of(browser, url):
    """Messages on the console, refused requests, and requests to other hosts.

    A missing page may answer 404.
    """
    said = [str(each["params"]) for each in browser.events if each["method"] in TROUBLE]
    asked = [
        each["params"]["request"]["url"]
        for each in browser.events
        if each["method"] == "Network.requestWillBeSent"
    ]
    return [each for each in said if "404" not in each] + [
        each for each in asked if urlsplit(each).netloc != urlsplit(url).netloc
    ]


def find_with_axe(tab, **options):
    """What makes this page hard to use for people with disabilities."""
    if not (AXE / "node_modules" / ".package-lock.json").exists():
        subprocess.run(
            [require("npm"), "ci", "--prefer-offline"], cwd=AXE, check=True, capture_output=True
        )
    if not tab.run("'axe' in window"):
        axe = (AXE / "node_modules/axe-core/axe.min.js").read_text()
        tab.run(f"{axe}; undefined")
    given = json.dumps({"preload": False, **options})
    return tab.run(
        f"axe.run({given}).then((found) => found.violations.flatMap((each) => "
        "each.nodes.map((node) => each.id + ' ' + node.html.slice(0, 150))))"
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_its_window_cuts_a_table_complains_or_asks_another_host_and_axe_finds_nothing(
    chromium, addresses, width
):
    tab, found = chromium.open_tab(width=width, height=844), {}
    for name, address in addresses.items():
        tab.go(address)
        tab.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        wrong = find_with_axe(tab)
        if width == 390:
            # In the dark nothing differs but the colours.
            tab.set_scheme("dark")
            wrong += find_with_axe(tab, runOnly=["color-contrast"])
            tab.set_scheme("light")
        # Not `innerWidth`, which grows with the page on a telephone.
        too_wide = tab.run("document.documentElement.scrollWidth") - width
        found[name] = (wrong, too_wide, tab.run(CUT_TABLES), trouble_of(chromium, address))
    assert found == dict.fromkeys(addresses, ([], 0, [], []))


@pytest.mark.parametrize("page", ["overview", "comparison", "alert"])
def test_the_first_screen_of_a_telephone_shows_what_fires_and_why(chromium, addresses, page):
    tab = chromium.open_tab(width=390, height=844)
    tab.go(addresses[page])
    seen = tab.run(
        "[...document.querySelectorAll('main a, main h1, main p, main li, main td "
        "div')].filter((each) => each.getBoundingClientRect().bottom < innerHeight && "
        "each.checkVisibility()).map((each) => each.innerText).join(' ')"
    )
    for said in ("seg2-nonUK-pop", "country=nonUK", "the same list from the candidate", "firing"):
        assert said in seen


def test_the_keyboard_alone_leads_from_the_overview_to_a_user_and_from_run_to_run(
    chromium, addresses
):
    tab = chromium.open_tab()
    tab.go(addresses["overview"])
    for wanted in ("/c/seg2-nonUK-pop", "/c/seg2-nonUK-pop/runs/", "/c/seg2-nonUK-pop/users/"):
        for _ in range(60):
            tab.press("Tab")
            if tab.run("document.activeElement.pathname || ''").startswith(wanted):
                break
        outline = tab.run("getComputedStyle(document.activeElement).outlineStyle")
        tab.press_and_go("Enter")
        assert (tab.run("location.pathname").startswith(wanted), outline) == (True, "solid")
    here = tab.run("location.href")
    tab.press_and_go("ArrowLeft")
    before = tab.run("location.href")
    tab.press_and_go("ArrowRight")
    assert (before != here, tab.run("location.href")) == (True, here)
