"""The pages over stored runs: whole, linked, equal to the API and the database, harmless whatever names come from outside."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import jsonschema
import pytest

import factories
import published
from monitor.errors import DatabaseError
from monitor.model.alerts import State
from monitor.model.comparison import Comparison
from monitor.model.explanation import FaultKind, Finding
from monitor.model.instants import format_instant
from monitor.model.rankings import Arm
from monitor.model.rules import Direction, LearnedLimit, Learning
from monitor.model.runs import RunStatus
from monitor.storage import SqlStore
from monitor.web import pages
from monitor.web.app import describe_api
from monitor.web.pages.overview import Standing, standing_of
from monitor.web.pages.site import user_url
from web.stored_pages import KEY, METRIC, SLOTS, Answer, application, browsing, fill, lists_of

EVIL = '<script>alert(1)<\\script>"&{{7*7}} \u202e\x1b[2J..'
SLOT = format_instant(SLOTS[-1])


def paths_of(name: str, user: str) -> dict[str, str]:
    """An address of every page, by the path of its route."""
    of_it = f"/c/{quote(name, safe='')}"
    return {
        "/": "/",
        "/c/{name}": of_it,
        "/c/{name}/runs/{slot}": f"{of_it}/runs/{SLOT}",
        "/c/{name}/users": f"{of_it}/users?id={quote(user, safe='')}",
        "/c/{name}/users/{user}": f"{of_it}/users/{quote(user.replace('/', ''), safe='')}?slot={SLOT}",
        "/alerts": "/alerts",
        "/alerts/{key}": f"/alerts/{KEY}",
        "/daemon": "/daemon",
    }


def watched(name: str = "home-feed") -> dict[str, Comparison]:
    learned = LearnedLimit(learning=Learning.DROP, direction=Direction.BELOW, value=-1.0)
    return {name: factories.comparison(name=name, rules=(factories.rule(alert="SimilarityDropped", limit=learned),))}


Ask = Callable[[str], Answer]


@pytest.fixture
def ask(store: SqlStore) -> Iterator[Ask]:
    fill(store)
    with browsing(application(store, comparisons=watched)) as ask:
        yield ask


def test_every_page_has_its_template_and_every_template_its_page() -> None:
    folder = Path(pages.__file__).parents[1] / "templates"
    reports = {"report.html", "compared.html", "certificate.html", "backtest.html"}
    kept = {"layout.html", "macros.html", "absent.html", "section.html", *reports}
    assert {path.name for path in folder.iterdir()} - kept == {page.template for page in pages.PAGES}
    assert [
        path.name for path in folder.iterdir() if re.search(r"\|\s*safe\b|autoescape|style=|\son\w+=", path.read_text())
    ] == []
    assert paths_of("a", "b").keys() == {page.path for page in pages.PAGES}
    read = {page.read.__module__.rpartition(".")[2] for page in pages.PAGES}
    others = {"__init__", "actions", "rendering", "report", "site", "status"}
    assert {path.stem for path in Path(pages.__file__).parent.glob("*.py")} - others == read


@pytest.mark.parametrize("page", [page for page in pages.PAGES if "{" not in page.path], ids=lambda page: page.path)
def test_a_page_without_a_name_in_its_address_is_linked_from_every_page(ask: Ask, page: pages.Page) -> None:
    assert f'href="{page.path}"' in ask("/alerts").text


@pytest.mark.parametrize("path", [page.path for page in pages.PAGES if page.path != "/c/{name}/users/{user}"])
def test_names_from_outside_stay_text_on_every_page(store: SqlStore, path: str) -> None:
    fill(store, EVIL, EVIL)
    app = application(store, comparisons=lambda: watched(EVIL), notice=lambda: EVIL, titles=lambda *_: {EVIL: EVIL})
    with browsing(app) as ask:
        answer = ask(paths_of(EVIL, EVIL)[path])
    assert answer.status == 200, answer.text
    body = answer.text
    assert re.findall(r"<script[^>]*>", body) == ['<script src="/static/rankwatch.js" defer>']
    assert not set(body) & {"\u202e", "\x1b"}
    assert "{{7*7}}" in body
    for drawn in re.findall(r"<svg.*?</svg>", body, re.DOTALL):
        ET.fromstring(drawn)  # noqa: S314 - our own
        assert "nan" not in drawn
    assert "&lt;script&gt;alert(1)" in body


def test_pages_may_load_nothing_from_elsewhere_and_run_no_other_script(ask: Ask) -> None:
    for address in paths_of("home-feed", "u1").values():
        policy = ask(address).headers["content-security-policy"]
        assert "default-src 'none'; style-src 'self'; script-src 'self'" in policy
    assert ask("/static/rankwatch.css").headers["content-type"].startswith("text/css")
    assert ask("/static/rankwatch.js").headers["content-type"].startswith("text/javascript")
    assert ask("/static/app.py").status == 404


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.api)
def test_json_is_as_the_description_says(ask: Ask, page: pages.Page) -> None:
    address = paths_of("home-feed", "u1")[page.path]
    answer = ask(address.replace("/c/", "/api/v1/comparisons/") if "/c/" in address else page.api.replace("{key}", KEY))
    described = describe_api()
    told = described["paths"][page.api]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), {**told, "components": described["components"]})
    assert ask("/api/v1/openapi.json").json() == described


def test_a_comparison_shows_what_is_stored(ask: Ask, store: SqlStore) -> None:
    shown = ask("/api/v1/comparisons/home-feed?period=30d").json()
    stored = store.history.runs(comparison="home-feed", limit=9)[::-1]
    assert [point["slot"] for point in shown["points"]] == [format_instant(run.slot) for run in stored]
    assert [point["mean"] for point in shown["points"]] == [
        next(each.mean for each in record.summaries if each.segment == "all")
        for run in stored
        if (record := store.history.record(run.id))
    ]
    assert {(point["low"], point["expected"], point["high"]) for point in shown["points"]} == {(0.4, 0.5, 0.6)}
    assert [(span["alert"], span["start"], span["end"]) for span in shown["spans"]] == [("SimilarityLow", SLOT, None)]
    assert [part["means"] for part in shown["parts"]] == [[0.25, 0.25, 0.25, 0.125]]
    assert len(shown["distribution"]) == len(shown["coverage"]) == len(stored)
    body = ask("/c/home-feed?period=30d").text
    assert body.count('class="dot"') + body.count('class="dot marked"') >= len(stored)
    assert f'href="/c/home-feed/runs/{SLOT}"' in body
    for figure in ("0.5000", "0.2500", "firing", "SimilarityLow", "catalogue_coverage", "missing"):
        assert figure in body


def test_where_the_newest_run_failed_earlier_ones_are_shown(store: SqlStore) -> None:
    fill(store)
    (latest,) = store.history.latest(["home-feed"])
    failed = replace(latest, run=replace(latest.run, status=RunStatus.FAILED), summaries=(), explanation=None)
    with browsing(application(store, latest=lambda: [failed], comparisons=watched)) as ask:
        shown = ask("/api/v1/comparisons/home-feed?period=30d").json()
    assert (shown["metric"], len(shown["points"])) == (METRIC, len(SLOTS))


def test_a_comparison_opens_on_the_segment_that_is_blamed_where_all_users_are_fine(store: SqlStore) -> None:
    fill(store)
    (latest,) = store.history.latest(["home-feed"])
    place = "country=home-feed"
    finding = Finding(kind=FaultKind.STALE, arms=(Arm.CANDIDATE,), segment=place, segment_share=1.0, users=9, compared=18)
    told = replace(published.explanation(), segment=place, finding=finding)
    local = replace(latest.states[0], alert="SimilarityDropped", segment=place)
    for states, opened in (((local,), place), ((local, replace(local, segment="all")), "all")):
        now = replace(latest, states=states, explanation=told)
        with browsing(application(store, latest=lambda now=now: [now], comparisons=watched)) as ask:
            assert ask("/api/v1/comparisons/home-feed").json()["segment"] == opened
            assert "segment=country%3Dhome-feed" in ask("/c/home-feed?segment=all").text


def test_what_ended_lately_is_said_with_what_it_was(store: SqlStore) -> None:
    fill(store)
    (latest,) = store.history.latest(["home-feed"])
    end = factories.transition(from_state=State.FIRING, to_state=State.QUIET, dedup_key=KEY, slot=SLOTS[-1])
    over = replace(latest, states=(), ended=end)
    with browsing(application(store, latest=lambda: [over], comparisons=watched)) as ask:
        assert f'<a href="/alerts/{KEY}">the last incident</a> ended' in ask("/").text
        assert ask("/api/v1/comparisons/home-feed").json()["ended"]["sentence"] == "home-feed"


def test_what_is_chosen_and_is_not_there_falls_back(ask: Ask) -> None:
    chosen = "/api/v1/comparisons/home-feed?metric=nope&segment=%3Cb%3E&period=always"
    shown = ask(chosen).json()
    assert (shown["metric"], shown["segment"], shown["period"]) == (METRIC, "all", "30d")


def test_a_run_leads_to_its_users_and_to_its_neighbours(ask: Ask) -> None:
    body = ask(f"/c/home-feed/runs/{format_instant(SLOTS[1])}").text
    assert f'rel="prev" href="/c/home-feed/runs/{format_instant(SLOTS[0])}"' in body
    assert f'rel="next" href="/c/home-feed/runs/{format_instant(SLOTS[2])}"' in body
    assert f'href="/c/home-feed/users/u1?slot={quote(format_instant(SLOTS[1]), safe="")}"' in body


@pytest.mark.parametrize("slot", SLOTS)
def test_a_user_is_shown_with_both_lists_in_every_run(ask: Ask, slot: Any) -> None:
    shown = ask(f"/api/v1/comparisons/home-feed/users/u1?slot={quote(format_instant(slot))}").json()
    assert (shown["lists"]["baseline"], shown["lists"]["candidate"]) == tuple(list(lists_of(arm, "home-feed")) for arm in Arm)
    assert {move["item"]: move["what"] for move in shown["moves"]} == {
        "i2": "up 1",
        "home-feed": "down 1",
        "i4": "new",
        "i3": "gone",
    }
    before = (list(lists_of(Arm.CANDIDATE, "home-feed")), format_instant(SLOTS[2])) if slot == SLOTS[3] else ([], None)
    assert (shown["former"], shown["former_slot"]) == before
    known = [0.5, 0.5, 0.5, 0.25][: SLOTS.index(slot) + 1]
    assert [run["scores"][METRIC] for run in shown["history"]] == known


def test_lists_that_were_not_kept_are_said_with_what_to_set(ask: Ask) -> None:
    assert ask("/c/home-feed/users/zz").status == 200
    body = ask(f"/c/home-feed/users/zz?slot={quote(format_instant(SLOTS[0]))}").text  # only the newest lists are kept
    assert "keep_lists: all" in body


@pytest.mark.parametrize("user", ["a/b", "..", ".", "", "ü %41?#&=+", "x" * 3000, "q\"'<>"])
def test_every_user_has_an_address(store: SqlStore, user: str) -> None:
    fill(store, user=user)
    with browsing(application(store)) as ask:
        answer = ask(user_url("home-feed", user, SLOTS[-1]))
    assert answer.status == 200, answer.text[-300:]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/c/nope", "no comparison named nope"),
        ("/c/home-feed/runs/2030-01-01T00:00:00Z", "was never run, or is deleted"),
        ("/c/home-feed/runs/yesterday", "yesterday is no slot: write it as"),
        ("/c/home-feed/users/nobody", "nothing is stored of user nobody"),
        ("/alerts/nothing", "no incident nothing"),
    ],
)
def test_what_is_not_there_is_said(ask: Ask, path: str, said: str) -> None:
    page, api = ask(path), ask(path.replace("/c/", "/api/v1/comparisons/").replace("/alerts/", "/api/v1/alerts/"))
    assert (page.status, api.status) == (404, 404)
    assert said in page.text
    assert said in api.json()["reason"]


def test_while_the_database_is_away_the_overview_stays(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store)

    def fail(*_: object, **__: object) -> None:
        msg = "the database does not answer since 03:00"
        raise DatabaseError(msg, permanent=False)

    monkeypatch.setattr(store.pages, "series", fail)
    with browsing(application(store, judge=fail)) as ask:
        answer, overview, gate = ask("/c/home-feed"), ask("/"), ask("/api/v1/gate/home-feed?margin=0.5&verdict=safe")
    assert (answer.status, gate.status) == (503, 503)
    assert "does not answer since 03:00" in answer.text
    assert "home-feed" in overview.text


@pytest.mark.parametrize(
    ("change", "standing"),
    [
        ({}, Standing.FIRING),
        ({"states": ()}, Standing.QUIET),
        ({"states": (), "run": published.run(status="failed")}, Standing.NO_DATA),
        ({"states": (published.state(state="pending"),)}, Standing.PENDING),
        ({"states": (), "expectations": (replace(published.latest().expectations[0], expected=None),)}, Standing.LEARNING),
    ],
)
def test_how_a_comparison_stands(change: dict[str, Any], standing: Standing) -> None:
    assert standing_of(published.latest(**change)) is standing


def test_the_overview_shows_the_worst_first_and_what_was_never_run() -> None:
    latest = [published.latest(run=published.run(comparison="b"), states=()), published.named("c")]
    configured: Callable[[], dict[str, Comparison]] = lambda: {**watched("a"), **watched("b"), **watched("c")}  # noqa: E731
    with browsing(published.pages(latest=lambda: latest, comparisons=configured)) as ask:
        shown = ask("/api/v1/comparisons").json()
    assert [(row["name"], row["standing"]) for row in shown["rows"]] == [("c", "firing"), ("a", "no data"), ("b", "quiet")]
    assert shown["counts"] == {"firing": 1, "no data": 1, "pending": 0, "learning": 0, "quiet": 1}


def test_of_very_many_comparisons_those_that_stand_best_are_a_name_in_a_list() -> None:
    latest = [published.latest(run=published.run(comparison=f"c{number:03}"), states=()) for number in range(160)]
    with browsing(published.pages(latest=lambda: (*latest, published.named("z")))) as ask:
        body = ask("/").text
    assert re.findall(r'<tr data-name="(\w+)"', body) == ["z", *(f"c{number:03}" for number in range(149))]
    assert re.findall(r'<li data-name="(\w+)"><a href="/c/(\w+)"', body) == [
        (name, name) for name in map("c{:03}".format, range(149, 160))
    ]


def test_a_row_of_the_overview_follows_what_was_published_last() -> None:
    shown = [published.latest(states=())]
    with browsing(published.pages(latest=lambda: shown)) as ask:
        standings = [ask("/api/v1/comparisons").json()["rows"][0]["standing"]]
        shown[0] = published.latest()
        standings.append(ask("/api/v1/comparisons").json()["rows"][0]["standing"])
    assert standings == ["quiet", "firing"]
