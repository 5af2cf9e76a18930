"""The pages of a real daemon in Chromium: whole, quiet, ours alone, usable by everybody, colours told apart by everybody.

Lists of one segment are replaced by the popular items from the eighth of nine days on; the last day is today.
"""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pytest
import requests

from drift_lists import lists_folder, run_cli, write_config
from monitor.charts.svg import read_style
from monitor.model.instants import utc_now
from servers import require
from servers.chromium import TROUBLE, Browser, browsing
from servers.daemon import serving, wait_for

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
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A daemon after a replay of the days up to today."""
    folder, today = tmp_path_factory.mktemp("site"), utc_now().date()
    days = [today - timedelta(days=number) for number in reversed(range(DAYS))]
    names = ("seg2-nonUK-pop", "ok-seed")
    for arm in ("baseline", *names):
        (folder / arm).mkdir()
        for number, day in enumerate(
            [*days, today + timedelta(days=1)], start=1
        ):  # midnight may come
            shutil.copy(
                lists_folder() / arm / f"{date(2024, 1, number)}.parquet",
                folder / arm / f"{day}.parquet",
            )
    config = write_config(folder, *(COMPARISON.format(name=name, folder=folder) for name in names))
    run_cli(
        "replay",
        "--from",
        f"{days[0]}T00:00:00Z",
        "--to",
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
def addresses(url: str) -> dict[str, str]:
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


def trouble_of(browser: Browser, url: str) -> list[str]:
    """What the page said on its console or was refused, and requests to other hosts.

    A missing page is said to be missing.
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


@pytest.mark.integration
@pytest.mark.parametrize(("width", "is_dark"), [(1280, False), (390, True), (390, False)])
def test_no_page_is_wider_than_its_window_cuts_a_table_complains_or_asks_another_host_and_axe_finds_nothing(
    browser, addresses, width, is_dark
):
    if not (AXE / "node_modules" / ".package-lock.json").exists():
        subprocess.run(
            [require("npm"), "ci", "--prefer-offline"], cwd=AXE, check=True, capture_output=True
        )
    axe = (AXE / "node_modules/axe-core/axe.min.js").read_text()
    tab, found = browser.open_tab(width=width, height=844, is_dark=is_dark), {}
    for name, address in addresses.items():
        tab.go(address)
        tab.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        tab.run(f"{axe}; undefined")
        wrong = tab.run(
            "axe.run().then((found) => found.violations.flatMap((each) => each.nodes.map((node) "
            "=> each.id + ' ' + node.html)))"
        )
        # Not `innerWidth`, which grows with the page on a telephone.
        too_wide = tab.run("document.documentElement.scrollWidth") - width
        found[name] = (wrong, too_wide, tab.run(CUT_TABLES), trouble_of(browser, address))
    assert found == dict.fromkeys(addresses, ([], 0, [], []))


@pytest.mark.integration
@pytest.mark.parametrize("page", ["overview", "comparison", "alert"])
def test_what_fires_and_why_stands_in_the_first_screen_of_a_telephone(browser, addresses, page):
    tab = browser.open_tab(width=390, height=844)
    tab.go(addresses[page])
    seen = tab.run(
        "[...document.querySelectorAll('main a, main h1, main p, main li, main td "
        "div')].filter((each) => each.getBoundingClientRect().bottom < innerHeight && "
        "each.checkVisibility()).map((each) => each.innerText).join(' ')"
    )
    for said in ("seg2-nonUK-pop", "country=nonUK", "the same list from the candidate", "firing"):
        assert said in seen


@pytest.mark.integration
def test_the_keyboard_alone_leads_from_the_overview_to_a_user_and_from_run_to_run(
    browser, addresses
):
    tab = browser.open_tab()
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


# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
SEEN_WITH = {
    "all cones": "1 0 0  0 1 0  0 0 1",
    "protanopia": (
        "0.152286 1.052583 -0.204868  0.114503 0.786281 0.099216  -0.003882 -0.048116 1.051998"
    ),
    "deuteranopia": (
        "0.367322 0.860646 -0.227968  0.280085 0.672501 0.047413  -0.011820 0.042940 0.968881"
    ),
}
TO_XYZ = (
    "0.4124564 0.3575761 0.1804375  0.2126729 0.7151522 0.0721750  0.0193339 0.1191920 0.9503041"
)
TOGETHER = (("bad", "good", "line"), ("band", "bad-soft", "card"), ("line", "warn", "quiet"))
"""Colours of the style sheet that mean different things in one picture."""
LEAST_APART = 10.0


def matrix(text: str) -> npt.NDArray[np.float64]:
    return np.array(text.split(), dtype=np.float64).reshape(3, 3)


def lab(colour: str, seen: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """CIELAB (D65) of ``#rrggbb`` as it is seen."""
    digits = colour.lstrip("#")
    digits = "".join(each * 2 for each in digits) if len(digits) == 3 else digits
    rgb = np.array([int(digits[place : place + 2], 16) for place in (0, 2, 4)]) / 255
    linear = np.clip(
        seen @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4), 0, 1
    )
    x, y, z = np.cbrt(np.maximum(matrix(TO_XYZ) @ linear / [0.95047, 1.0, 1.08883], 1e-9))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SEEN_WITH)
def test_colours_that_mean_different_things_are_told_apart(sight):
    style = read_style()
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", part))
        for part in style.split("prefers-color-scheme", 1)
    )
    stacked = re.findall(r"svg \.s\d \{ fill: (#[0-9a-f]{6})", style)
    groups = [
        [theme[name] for name in names] for theme in (light, light | dark) for names in TOGETHER
    ] + [stacked[:4]]
    seen = matrix(SEEN_WITH[sight])
    for group in groups:
        for one, other in combinations(group, 2):
            assert np.linalg.norm(lab(one, seen) - lab(other, seen)) >= LEAST_APART, (one, other)
