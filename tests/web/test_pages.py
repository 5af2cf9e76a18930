"""The pages over stored runs: whole, linked, equal to the API and the database, harmless whatever names come from outside."""

import html
import re
from dataclasses import replace
from urllib.parse import quote
from xml.etree import ElementTree as ET

import jsonschema
import pytest

import factories
import published
from factories import HOUR
from messages import finding
from monitor.model.alerts import Outcome, State
from monitor.model.daemon_state import (
    DaemonState,
    DatabaseAway,
    Refused,
    ReloadRefusal,
    Role,
    RoleKind,
)
from monitor.model.errors import DatabaseError
from monitor.model.explanation import FaultKind
from monitor.model.instants import format_instant
from monitor.model.pages import ReceiverHealth
from monitor.model.rules import Direction, LearnedLimit, Learning, Severity
from monitor.model.run_reasons import RunReason, RunReasonKind
from monitor.model.runs import RunStatus
from monitor.storage.alert_states import store_transitions
from monitor.texts.actions import write_urgency
from monitor.texts.conditions import write_other_value
from monitor.web import pages
from monitor.web.app import describe_api
from monitor.web.pages.alerts import MOST_ENDED_INCIDENTS
from monitor.web.pages.rendering import show_instant
from monitor.web.pages.site import user_url
from tables import cells
from web.stored_pages import EVIL, KEY, METRIC, SLOTS, application, browsing, fill

SLOT = format_instant(SLOTS[-1])
FEED = "/api/v1/comparisons/home-feed"
ITEM_URL = "https://shop.example.com/items/{item}?from=rankwatch&x=1#{item}"


def paths_of(name, user):
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


def watched(name="home-feed", **more):
    learned = LearnedLimit(learning=Learning.DROP, direction=Direction.BELOW, value=-1.0)
    rules = (factories.rule(alert="SimilarityDrop", limit=learned),)
    return {name: replace(factories.comparison(name=name, rules=rules), **more)}


def browsing_latest(store, latest, **given):
    """Browse the pages of a daemon whose newest finished runs are these."""
    return browsing(application(store, latest=latest, comparisons=watched(), **given))


@pytest.fixture(scope="module")
def ask(filled, latest):
    with browsing_latest(filled, [latest]) as ask:
        yield ask


@pytest.fixture(scope="module")
def latest(filled):
    (found,) = filled.history.latest(["home-feed"])
    return found


def test_every_page_is_linked_from_another_and_one_without_a_name_from_every_page(ask):
    links = {}
    for path, address in paths_of("home-feed", "u1").items():
        links[path] = set(re.findall(r'(?:href|action)="([^"?]*)', ask(address).text))
    for page in pages.PAGES:
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", page.path))
        sources = {path for path in links if any(map(pattern.fullmatch, links[path]))}
        assert sources - {page.path}, f"link {page.path} from another page"
        assert "{" in page.path or sources == links.keys(), page.path


def test_names_from_outside_stay_text_on_every_page(stores):
    refusal = ReloadRefusal(file=Refused.CONFIGURATION, at=SLOTS[0], reason=EVIL)
    state = DaemonState(role=Role(kind=RoleKind.STANDBY, leader=EVIL, epoch=1), refusals=(refusal,))
    given = {
        "comparisons": watched(EVIL),
        "daemon": state,
        "titles": lambda *_: {EVIL: EVIL},
    }
    paths = paths_of(EVIL, EVIL)
    del paths["/c/{name}/users/{user}"]  # browsers take such a path apart
    with browsing(application(stores[EVIL], **given)) as ask:
        answers = {path: ask(address) for path, address in paths.items()}
    for path, answer in answers.items():
        body = answer.text
        assert answer.status == 200, (path, body)
        assert re.findall(r"<script[^>]*>", body) == ['<script src="/static/rankwatch.js" defer>']
        assert not set(body) & {"\u202e", "\x1b"}
        assert "{{7*7}}" in body
        assert "&lt;script&gt;alert(1)" in body
        for drawn in re.findall(r"<svg.*?</svg>", body, re.DOTALL):
            ET.fromstring(drawn)  # noqa: S314 - our own
            assert "nan" not in drawn


def test_pages_may_load_nothing_from_elsewhere_and_run_no_other_script(ask):
    for address in paths_of("home-feed", "u1").values():
        policy = ask(address).headers["content-security-policy"]
        assert "default-src 'none'; style-src 'self'; script-src 'self'" in policy
    assert ask("/static/rankwatch.css").headers["content-type"].startswith("text/css")
    assert ask("/static/rankwatch.js").headers["content-type"].startswith("text/javascript")
    assert ask("/static/app.py").status == 404


def test_json_is_as_the_description_says(ask):
    described = ask("/api/v1/openapi.json").json()
    assert described == describe_api()
    addresses = paths_of("home-feed", "u1")
    assert addresses.keys() == {page.path for page in pages.PAGES}, "add the page to paths_of"
    for page in pages.PAGES:
        api = replace(page, path=addresses[page.path]).api
        content = described["paths"][page.api]["get"]["responses"]["200"]["content"]
        schema = content["application/json"]["schema"]
        jsonschema.validate(ask(api).json(), {**schema, "components": described["components"]})


def test_only_the_answer_409_of_the_gate_is_described_as_text_too():
    responses = describe_api()["paths"]["/api/v1/gate/{name}"]["get"]["responses"]
    types = {status: [*responses[status]["content"]] for status in ("404", "409", "504")}
    assert types == {
        "404": ["application/json"],
        "409": ["application/json", "text/plain"],
        "504": ["application/json"],
    }


def test_an_address_of_the_api_that_no_route_has_is_said_in_json(ask):
    answer = ask("/api/v1/comparisons/a%2Fb/c")
    assert (answer.status, answer.json()["error"]) == (404, "Not Found")


def test_a_comparison_shows_what_is_stored(ask):
    shown = ask(f"{FEED}?period=30d").json()
    assert [point["slot"] for point in shown["points"]] == [*map(format_instant, SLOTS)]
    assert [point["mean"] for point in shown["points"]] == [0.5, 0.5, 0.5, 0.25]
    assert {(point["low"], point["expected"], point["high"]) for point in shown["points"]} == {
        (0.4, 0.5, 0.6)
    }
    assert [(span["alert"], span["started_at"], span["ended_at"]) for span in shown["spans"]] == [
        ("SimilarityLow", SLOT, None)
    ]
    assert [part["means"] for part in shown["segment_means"]] == [[0.25, 0.25, 0.25, 0.125]]
    assert len(shown["distribution"]) == len(shown["coverage"]) == 4
    body = ask("/c/home-feed?period=30d").text
    assert body.count('class="dot') >= 4
    assert f'href="/c/home-feed/runs/{SLOT}"' in body
    for figure in ["0.5000", "0.2500", "firing", "SimilarityLow", "catalogue_coverage", "missing"]:
        assert figure in body


def test_where_the_newest_run_failed_earlier_ones_are_shown(filled, latest):
    failed = replace(latest, status=RunStatus.FAILED, summaries=(), explanation=None)
    with browsing_latest(filled, [failed]) as ask:
        shown = ask(f"{FEED}?period=30d").json()
    assert (shown["metric"], len(shown["points"])) == (METRIC, len(SLOTS))


def test_a_comparison_opens_on_the_segment_that_is_blamed_where_all_users_are_fine(filled, latest):
    place = "country=home-feed"
    stale = finding(FaultKind.UNCHANGED, segment=place)
    explained = replace(published.explanation(), segment=place, finding=stale)
    local = replace(latest.states[0], alert="SimilarityDrop", segment=place)
    shown = [latest]
    with browsing_latest(filled, shown) as ask:
        for states, opened in (((local,), place), ((local, replace(local, segment="all")), "all")):
            shown[0] = replace(latest, states=states, explanation=explained)
            assert ask(FEED).json()["segment"] == opened
            assert ask(f"{FEED}?segment=nope").json()["segment"] == opened
            for address in ("/c/home-feed", f"/alerts/{KEY}"):
                assert "look at the job that writes the lists of the candidate" in ask(address).text
            assert "segment=country%3Dhome-feed" in ask("/c/home-feed?segment=all").text


def test_a_comparison_opens_on_the_value_that_its_alert_judges_and_says_what_to_do(filled, latest):
    other = replace(latest.summaries[0], metric="overlap")
    told = replace(latest.explanation, metric="overlap")
    shown = replace(latest, summaries=(other, *latest.summaries), explanation=told)
    with browsing_latest(filled, [shown]) as ask:
        assert ask(FEED).json()["metric"] == METRIC
        page, other_page = (ask(f"/c/home-feed{query}").text for query in ("", "?metric=overlap"))
    assert write_urgency(Severity.CRITICAL) in page
    for link in ("https://runbooks.test/similarity", f"/alerts/{KEY}"):
        assert f'href="{link}"' in page
    said = write_other_value(latest.states[0])
    assert (said in page, said in other_page) == (False, True)


def test_a_change_that_may_be_wanted_has_its_command_and_a_split_that_is_off_its_own_link(
    filled, latest
):
    replacement = finding(FaultKind.REPLACED)
    wanted = replace(latest, explanation=replace(published.explanation(), finding=replacement))
    off = replace(latest, reasons=(RunReason(kind=RunReasonKind.SPLIT_OFF),))
    shown = [latest]
    with browsing_latest(filled, shown) as ask:
        for newest, offers, splits in ((latest, 0, 0), (wanted, 1, 0), (off, 0, 1)):
            shown[0] = newest
            assert ("rankwatch accept home-feed --since" in ask(f"/alerts/{KEY}").text) == offers
            assert ("See the users of both arms" in ask("/c/home-feed").text) == splits


def test_what_ended_lately_is_said_with_what_it_was(filled, latest):
    end = factories.transition(
        from_state=State.FIRING, to_state=State.QUIET, incident=KEY, slot=SLOTS[-1]
    )
    over = replace(latest, states=(), last_end=end)
    with browsing_latest(filled, [over]) as ask:
        assert f'<a href="/alerts/{KEY}">the last incident</a> ended' in ask("/").text
        assert ask(FEED).json()["ended_incident"]["sentence"] == "home-feed"


def test_a_quiet_comparison_says_that_all_is_well_and_whether_receivers_get_messages(
    filled, latest
):
    well = replace(latest.states[0], state=State.QUIET, outcome=Outcome.OK)
    unjudged = replace(well, segment="a=b", outcome=Outcome.NO_DATA, value=None)
    quiet = replace(latest, states=(well, unjudged))
    with browsing_latest(filled, [quiet], receivers=("pager",)) as ask:
        page = ask("/c/home-feed").text
        shown = ask(FEED).json()
    assert "All is well: no alert fires. The newest run judged 1 of 2 alerts." in page
    assert "No message to the receiver pager was needed so far." in page
    assert "<td>a=b</td><td>not judged</td>" in re.sub(" data-label=[^>]*", "", page)
    assert "1 quiet, 1 not judged" in page
    assert (shown["unjudged"], list(shown["records"])) == (1, ["pager"])


def test_what_is_chosen_and_is_not_there_falls_back(ask):
    shown = ask(f"{FEED}?metric=nope&segment=%3Cb%3E&period=always").json()
    assert (shown["metric"], shown["segment"], shown["period"]) == (METRIC, "all", "30d")


def test_a_run_leads_to_its_users_and_to_its_neighbours(ask):
    before, slot, after = map(format_instant, SLOTS[:3])
    body = ask(f"/c/home-feed/runs/{slot}").text
    assert f'rel="prev" href="/c/home-feed/runs/{before}"' in body
    assert f'rel="next" href="/c/home-feed/runs/{after}"' in body
    assert f'href="/c/home-feed/users/u1?slot={quote(slot, safe="")}"' in body


def test_a_user_is_shown_with_both_lists_in_every_run(ask):
    baseline, candidate = ["home-feed", "i2", "i3"], ["i2", "home-feed", "i4"]
    for number, slot in enumerate(SLOTS):
        shown = ask(f"{FEED}/users/u1?slot={quote(format_instant(slot))}").json()
        assert (shown["lists"]["baseline"], shown["lists"]["candidate"]) == (baseline, candidate)
        moves = {move["item"]: move["change"] for move in shown["moves"]}
        assert moves == {"i2": "up 1", "home-feed": "down 1", "i4": "new", "i3": "gone"}
        before = (candidate, format_instant(SLOTS[2])) if number == 3 else ([], None)
        assert (shown["former"], shown["former_slot"]) == before
        assert [run["scores"][METRIC] for run in shown["history"]] == [0.5, 0.5, 0.5, 0.25][
            : number + 1
        ]


def test_lists_that_were_not_kept_are_said_with_what_to_set(ask):
    assert ask("/c/home-feed/users/zz").status == 200
    # Only the newest lists are stored.
    path = f"/c/home-feed/users/zz?slot={quote(format_instant(SLOTS[0]))}"
    assert "keep_lists: all" in ask(path).text


def test_every_user_has_an_address(ask):
    for user in ("a/b", "..", ".", "", "ü %41?#&=+", "x" * 3000, "q\"'<>"):
        answer = ask(user_url("home-feed", user, SLOTS[-1]).replace("/c/", "/api/v1/comparisons/"))
        assert answer.json()["reason"].startswith(
            f"no list and no score of user {user} is stored up to"
        )


@pytest.mark.parametrize(
    "item", [EVIL, "../admin", "javascript:alert(1)", "x" * 10_000], ids=range(4)
)
def test_an_item_leads_to_its_own_page_whatever_its_id(store, item):
    fill(store, item=item)
    given = {
        "comparisons": watched(item_url=ITEM_URL),
        "titles": lambda *_: {item: "<i>Tea</i>"},
    }
    paths = paths_of("home-feed", "u1")
    mine = ITEM_URL.replace("{item}", quote(item, safe=""))
    with browsing(application(store, **given)) as ask:
        for path in ("/c/{name}/runs/{slot}", "/c/{name}/users/{user}"):
            answer = ask(paths[path])
            links = {html.unescape(link) for link in re.findall(r'href="(http[^"]*)"', answer.text)}
            assert answer.status == 200
            assert mine in links
            assert all(link.startswith("https://shop.example.com/items/") for link in links)
            assert "<i>" not in answer.text
    assert answer.text.count("&lt;i&gt;Tea&lt;/i&gt; (") == 4, (
        "of both lists, and of one before and now"
    )


REFUSED = f"""
404  /c/nope                                 no comparison named nope
404  /c/home-feed/runs/2030-01-01T00:00:00Z  was never run, or its run was deleted
404  /c/home-feed/runs/yesterday             yesterday is not a slot: write it as
404  /c/home-feed/users/nobody               no list and no score of user nobody is stored
404  /alerts/nothing                         no incident nothing
# What cannot be read names the parameter.
400  /c/home-feed/users                      id:
400  /c/home-feed?from=soon                  from:
400  /alerts?severity=bad                    severity:
400  /alerts?before=0                        before:
400  /alerts?text={"x" * 201}                text:
"""


def test_what_is_not_there_or_cannot_be_read_is_said(ask):
    for status, path, said in cells(REFUSED):
        api = path.replace("/c/", "/api/v1/comparisons/").replace("/alerts", "/api/v1/alerts")
        page, answer = ask(path), ask(api)
        assert page.status == answer.status == int(status)
        assert said in page.text
        assert said in answer.json()["reason"]


def test_while_the_database_is_away_the_overview_stays(filled, monkeypatch):
    def fail(*_, **__):
        msg = "the database does not answer since 03:00"
        raise DatabaseError(msg, permanent=False)

    role = Role(kind=RoleKind.LEADER, leader="a:1", epoch=7)
    away = DatabaseAway(since=SLOTS[1], reason="refused", read_at=SLOTS[0])
    state = DaemonState(role=role, away=away)
    latest = [published.latest(states=()), published.named("fires")]
    app = application(filled, judge=fail, latest=latest, daemon=state)
    monkeypatch.setattr(filled.pages, "series", fail)
    with browsing(app) as ask:
        page, overview = ask("/c/home-feed"), ask("/")
        assert ask("/api/v1/gate/home-feed?margin=0.5&verdict=safe").status == 503
        shown = ask("/api/v1/comparisons").json()["daemon"]["away"]
    assert (page.status, "does not answer since 03:00" in page.text) == (503, True)
    for said in (
        f"The database has been away since {show_instant(SLOTS[1])}: refused.",
        f"The states below were read at {show_instant(SLOTS[0])}.",
    ):
        assert said in overview.words
    assert re.findall(r'class="pill([^"]*)">was ([a-z ]+)<', overview.text)[-2:] == [
        (" firing", "firing"),
        ("", "quiet"),
    ]
    assert 'class="pill quiet"' not in overview.text
    assert (shown["since"], shown["reason"]) == (format_instant(SLOTS[1]), "refused")


def test_a_daemon_says_which_part_it_has_what_it_refused_and_what_became_of_its_receivers(
    store, monkeypatch
):
    why = "comparisons[0].nme: unknown key"
    refusal = ReloadRefusal(file=Refused.CONFIGURATION, at=SLOTS[0], reason=why)
    role = Role(kind=RoleKind.STANDBY, leader="b:2", epoch=3)
    standby = DaemonState(role=role, refusals=(refusal,))
    status = replace(published.site().status(), daemon=standby, receivers=("pager", "chat"))
    health = ReceiverHealth(last_success_at=SLOTS[1], last_error_at=SLOTS[2], reason="answered 503")
    monkeypatch.setattr(store.outbox, "receiver_health", lambda: {"pager": health})
    with browsing(application(store, daemon=standby, status=lambda: status)) as ask:
        texts = [ask(page).words for page in ("/", "/daemon")]
    for text in texts:
        assert "This daemon is on standby: b:2 (host:process) leads under epoch 3." in text
        assert f"The configuration was refused at {show_instant(SLOTS[0])}" in text
        assert why in text
    of_receivers = (f"{show_instant(SLOTS[2])}: answered 503", f"pager{show_instant(SLOTS[1])}")
    for said in (*of_receivers, "chatnever"):
        assert said in texts[1]


def test_incidents_are_shown_in_pages_with_links_to_older_ones_and_what_is_chosen_stays(store):
    days = (SLOTS[0] + number * HOUR for number in range(3 * MOST_ENDED_INCIDENTS))
    changes = []
    for number, at in enumerate(days):
        key, alert = f"k{number}", f"A{number % 2}"
        start = factories.transition(slot=at, at=at, dedup_key=key, incident=key, alert=alert)
        changes += [start, replace(start, from_state=State.FIRING, to_state=State.QUIET)]
    with store.database.write() as connection:
        store_transitions(connection, changes, ())
    seen = []
    with browsing(application(store)) as ask:
        path = "/alerts?text=a1&state=ended&comparison=home-feed&severity=critical"
        while path:
            ended = ask(f"/api/v1{path}").json()["ended_incidents"]
            body = ask(path).text
            assert {each["alerts"][0] for each in ended} == {"A1"}
            assert all(f'href="/alerts/{each["incident"]}"' in body for each in ended)
            seen += [each["incident"] for each in ended]
            links = re.findall(r'href="([^"]*)" rel="next"', body)
            path = html.unescape(links[0]) if links else ""
    assert seen == [
        f"k{number}" for number in reversed(range(3 * MOST_ENDED_INCIDENTS)) if number % 2
    ]


def test_the_overview_shows_the_worst_first_and_what_was_never_run_and_follows_what_was_published_last():
    learning = replace(published.latest().expectations[0], expected=None)
    pending = published.state(state="pending")
    latest = [
        published.latest(comparison="b", states=()),
        published.named("c"),
        published.latest(comparison="d", status="failed", states=()),
        published.latest(comparison="e", states=(pending,)),
        published.latest(comparison="f", states=(), expectations=(learning,)),
    ]
    configured = {name: watched(name)[name] for name in "abcdef"}
    with browsing(published.pages(latest=latest, comparisons=configured)) as ask:
        shown = ask("/api/v1/comparisons").json()
        latest[0] = published.named("b")
        later = ask("/api/v1/comparisons").json()["rows"]
        assert re.search(r'<form[^>]*role="search" hidden', ask("/").text), (
            "it would do nothing without JavaScript"
        )
    standings = "c firing a no_data d no_data e pending f learning b quiet"
    assert " ".join(f"{row['comparison']} {row['state']}" for row in shown["rows"]) == standings
    assert shown["counts"] == {"firing": 1, "no_data": 2, "pending": 1, "learning": 1, "quiet": 1}
    assert [row["comparison"] for row in later if row["state"] == "firing"] == ["b", "c"]


def test_of_many_comparisons_the_quietest_are_shown_by_name_only():
    latest = [published.latest(comparison=f"c{number:03}", states=()) for number in range(160)]
    with browsing(published.pages(latest=(*latest, published.named("z")))) as ask:
        body = ask("/").text
    assert re.findall(r'<tr data-name="(\w+)"', body) == [
        "z",
        *(f"c{number:03}" for number in range(149)),
    ]
    listed = re.findall(r'<li data-name="(\w+)"><a href="/c/(\w+)"', body)
    assert listed == [(f"c{number:03}", f"c{number:03}") for number in range(149, 160)]
