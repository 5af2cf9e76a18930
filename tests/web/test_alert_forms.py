"""What people do on the pages of alerts, over a real server: who may, from where, what it changes, and what it does again."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from factories import HeldClock
from monitor.alerts import MaintenanceWindow, Matcher, NotificationPolicy
from monitor.model import DeliveryStatus, State
from monitor.storage import SqlStore, open_store
from monitor.web.access import Access
from servers.certificates import Authority, Pair, authority, client_pair, server_pair  # noqa: F401 - fixtures
from storage.worked import note
from web.sites import KIM, Site, access_of, hashed, running
from web.stored_pages import KEY, SLOTS, application, fill

# ruff: noqa: F811 - fixtures are imported

NOW = SLOTS[-1] + timedelta(hours=6)
JOE = ("joe", "battery staple")
PAGE = f"/alerts/{KEY}"
EVIL = "<script>alert(1)</script>\"'&\u202e\x00"


@dataclass
class Browser:
    """Kim's, unless another is given."""

    site: Site
    store: SqlStore
    clock: HeldClock

    def get(self, path: str = PAGE, user: tuple[str, str] | None = KIM) -> str:
        return self.site.get(path, user)[2].decode()

    def token(self, user: tuple[str, str] = KIM) -> str:
        found = re.search(r'name="token" value="([^"]+)"', self.get("/alerts", user))
        assert found
        return unescape(found[1])

    def post(
        self, fields: dict[str, str], path: str = PAGE, user: tuple[str, str] | None = KIM, **headers: str
    ) -> tuple[int, str]:
        """The status, and where it leads to or what it says."""
        known = {"token": self.token()} if user == KIM and "token" not in fields else {}
        body = urlencode({**known, **fields})
        headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        status, answered, text = self.site.get(path, user, "POST", body.encode(), **headers)
        return status, answered.get("location", unescape(text.decode()))

    @property
    def states(self) -> list[tuple[str, str | None]]:
        return [(each.state, each.acknowledged_by) for each in self.store.alerts.states()]


@contextmanager
def browser_of(store: SqlStore, access: Access | None = None, tls: Any = None, **given: Any) -> Iterator[Browser]:
    clock = HeldClock(NOW)
    users = {name: hashed(password) for name, password in (KIM, JOE)}
    app = application(store, clock=clock, **given)
    with running(app, tls=tls, access=access or access_of(basic_auth_users=users)) as site:
        yield Browser(site, store, clock)


@pytest.fixture
def browser(store: SqlStore) -> Iterator[Browser]:
    fill(store)
    with browser_of(store) as browser:
        yield browser


@pytest.fixture
def changed(store: SqlStore) -> Callable[[], bool]:
    """Whether anything was changed since ``fill``."""
    return lambda: (
        [each.state for each in store.alerts.states() if each.acknowledged_by is None] != [State.FIRING]
        or bool(store.alerts.silences(ending_after=None))
        or len(store.alerts.transitions(comparison=None, limit=None)) > 1
    )


def test_whoever_is_on_call_acknowledges_silences_expires_and_resolves_on_either_database(database_url: str) -> None:
    with closing(open_store(database_url, create=True)) as store:
        fill(store)
        with browser_of(store) as browser:
            assert browser.post({"do": "acknowledge", "comment": " known \n"}) == (303, f"{PAGE}?done=acknowledge")
            assert browser.states == [("firing", "kim")]
            assert "kim is on it" in browser.get()
            said = browser.get(f"{PAGE}?done=acknowledge")
            assert "it is not sent again until it ends" in said
            assert "<b>" not in browser.get(f"{PAGE}?done=<b>")

            silence = {
                "do": "silence",
                "matchers": 'comparison=home-feed\r\nalert=~"Similarity.*"',
                "for": "2h",
                "comment": "why",
            }
            assert browser.post(silence) == (303, f"{PAGE}?done=silence")
            (made,) = store.alerts.silences(ending_after=NOW)
            assert (made.matchers, made.author, made.comment) == (
                ("comparison=home-feed", 'alert=~"Similarity.*"'),
                "kim",
                "why",
            )
            assert (made.created_at, made.starts_at, made.ends_at) == (NOW, NOW, NOW + timedelta(hours=2))
            assert f"silence {made.id} of kim" in browser.get()

            browser.clock.pass_by(60)
            for outcome in ("expire", "nothing"):
                asked = {"do": "expire", "silence": str(made.id)}
                assert browser.post(asked, "/alerts") == (303, f"/alerts?done={outcome}")
            assert store.alerts.silences(ending_after=browser.clock.at) == ()

            assert browser.post({"do": "resolve", "comment": "rolled back"}) == (303, f"{PAGE}?done=resolve")
            assert browser.states == [("quiet", None)]
            reasons = [each.reason for each in store.alerts.transitions(comparison=None, limit=2)]
            assert reasons == ["acknowledged by kim: known", "resolved by kim: rolled back"]


def test_the_form_of_an_incident_silences_its_alerts(browser: Browser) -> None:
    shown = re.search(r"<textarea[^>]*>(.*?)</textarea>", browser.get(), re.DOTALL)
    assert shown
    assert browser.post({"do": "silence", "matchers": unescape(shown[1]), "for": "1h"})[0] == 303
    assert "silence 1 of kim" in browser.get()


def test_what_is_sent_again_changes_nothing_and_says_so(browser: Browser) -> None:
    token = browser.token()
    silence = {"do": "silence", "matchers": "alert=A", "for": "1h", "token": token}
    done = [{"do": "acknowledge", "token": token}, silence, {"do": "resolve", "token": token}]
    for fields in done:
        assert browser.post(fields)[1] == f"{PAGE}?done={fields['do']}"
    browser.clock.pass_by(60)
    before = browser.states, browser.store.alerts.silences(ending_after=None)
    for fields in done:
        assert browser.post(fields)[1] == f"{PAGE}?done=nothing"
    assert (browser.states, browser.store.alerts.silences(ending_after=None)) == before
    assert "Nothing was changed" in browser.get(f"{PAGE}?done=nothing")
    # A form that is loaded anew is not the same.
    assert browser.post({**silence, "token": browser.token()})[1] == f"{PAGE}?done=silence"


def test_an_old_page_does_nothing_to_what_fires_under_another_key(browser: Browser, changed: Callable[[], bool]) -> None:
    for path in ("/alerts/another-key", "/alerts", "/alerts/%3Cb%3E%00"):
        for what in ("resolve", "acknowledge"):
            assert browser.post({"do": what, "token": browser.token()}, path)[0] == 303
    assert not changed()


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (lambda _: "", "load its page anew"),
        (lambda _: "nonsense~", "load its page anew"),
        (lambda browser: browser.token(user=JOE), "not of this user"),
        (lambda browser: browser.token().replace("2024", "2025"), "load its page anew"),
        (lambda browser: browser.token() + "\u20ac", "load its page anew"),
    ],
    ids=["missing", "nonsense", "another user's", "changed", "not ASCII"],
)
def test_a_form_without_its_token_is_refused(
    browser: Browser, changed: Callable[[], bool], token: Callable[[Browser], str], why: str
) -> None:
    status, said = browser.post({"do": "resolve", "token": token(browser)})
    assert (status, why in said) == (403, True)
    assert not changed()


def test_a_form_of_a_process_that_has_ended_is_refused(browser: Browser, store: SqlStore, changed: Callable[[], bool]) -> None:
    with browser_of(store) as old:
        token = old.token()
    assert browser.post({"do": "resolve", "token": token})[0] == 403
    assert not changed()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.test"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://hidden-by-a-proxy.test"}, 303),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://rankwatch.test"}, 303),
        ({"Host": "here.test", "Origin": "http://here.test"}, 303),
        ({}, 303),
    ],
    ids=str,
)
def test_a_form_of_another_site_is_refused(store: SqlStore, headers: dict[str, str], status: int) -> None:
    fill(store)
    with browser_of(store, host="rankwatch.test") as browser:
        assert browser.post({"do": "acknowledge"}, PAGE, KIM, **headers)[0] == status
        assert browser.states == [("firing", "kim" if status == 303 else None)]


def test_nobody_acts_where_nobody_is_known_by_name(store: SqlStore, changed: Callable[[], bool]) -> None:
    fill(store)
    with browser_of(store, Access()) as browser:
        for path in (PAGE, "/alerts"):
            body = browser.get(path, None)
            assert "web_config_file" in body
            assert "<form" not in body
            status, said = browser.post({"do": "resolve"}, path, None)
            assert (status, "basic_auth_users or verified client certificates" in said) == (403, True)
    with browser_of(store) as browser:
        assert browser.post({"do": "resolve"}, user=("kim", "wrong"))[0] == 401
        assert browser.post({"do": "resolve"}, user=None)[0] == 401
    assert not changed()


def test_a_client_certificate_names_who_acts(
    store: SqlStore, authority: Authority, server_pair: Pair, client_pair: Pair
) -> None:
    fill(store)
    tls = {"cert_file": str(server_pair.cert), "key_file": str(server_pair.key), "client_ca_file": str(authority.cert)}
    access = access_of(basic_auth_users={}, tls_server_config={**tls, "client_auth_type": "RequireAndVerifyClientCert"})
    with browser_of(store, access, authority.client_context(client_pair)) as browser:
        assert browser.post({"do": "acknowledge"})[0] == 303
    (state,) = store.alerts.states()
    assert state.acknowledged_by == "client"


@pytest.mark.parametrize(
    ("fields", "status", "why"),
    [
        ({"do": "drop"}, 422, "there is no action 'drop'"),
        ({}, 422, "there is no action ''"),
        ({"do": "expire", "silence": "9" * 30}, 422, "there is no action 'expire' for '999"),
        ({"do": "expire", "silence": "²"}, 422, "there is no action 'expire' for '²'"),
        ({"do": "silence", "matchers": "alert=A"}, 422, "for how long: not a duration"),
        ({"do": "silence", "matchers": "alert=A", "for": "0s"}, 422, "nothing would be held back"),
        ({"do": "silence", "matchers": "alert=A", "for": "2"}, 422, "write 2s, 2m or 2h"),
        ({"do": "silence", "matchers": " \r\n", "for": "2h"}, 422, "a silence needs a matcher"),
        ({"do": "silence", "matchers": "everything", "for": "2h"}, 422, "'everything' is no matcher"),
        ({"do": "silence", "matchers": "alert=~(", "for": "2h"}, 422, "is no regular expression"),
        ({"do": "resolve", "comment": "x" * 20_000}, 413, "at most 16,384 bytes"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said_with_what_to_do(
    browser: Browser, changed: Callable[[], bool], fields: dict[str, str], status: int, why: str
) -> None:
    found, said = browser.post(fields)
    assert (found, why in said) == (status, True), said
    assert not changed()


def test_whatever_people_write_stays_text(browser: Browser) -> None:
    silence = {"do": "silence", "matchers": f"alert=SimilarityLow\ncomparison!={EVIL}", "for": "1h", "comment": EVIL}
    assert browser.post({"do": "acknowledge", "comment": EVIL})[0] == 303
    assert browser.post(silence)[0] == 303
    for path in (PAGE, "/alerts"):
        body = browser.get(path)
        assert "<script>alert" not in body
        assert not set(body) & {"\u202e", "\x00"}
        assert "&lt;script&gt;alert(1)" in body
    assert browser.post({"do": "drop<script>"})[1].count("<script>") == 1  # spelled out; the answer was unescaped


def test_a_page_shows_what_was_sent_to_whom_and_what_holds_it_back(store: SqlStore) -> None:
    fill(store)
    (delivery,) = store.outbox.claim_deliveries("pager", owner="test", now=NOW, until=NOW + timedelta(minutes=1), limit=9)
    store.outbox.record(note(delivery, NOW, DeliveryStatus.SENT))
    window = MaintenanceWindow(name="night", matchers=(Matcher.parse("comparison=home-feed"),), ends_at=lambda now: now)
    with browser_of(store, policy=lambda: NotificationPolicy(windows=(window,))) as browser:
        body = unescape(browser.get())
    (sent,) = re.findall(r"<pre>(.*?)</pre>", body, re.DOTALL)
    assert sent.startswith("SimilarityLow firing on home-feed\n\nWhy:\n")
    assert "rankwatch show home-feed" in sent
    assert "The message to pager of" in body
    assert "made again from what is stored" in body
    assert "SimilarityLow: maintenance night until" in body


def test_the_sentence_comes_first_and_every_table_stands_on_a_telephone(browser: Browser) -> None:
    body = browser.get()
    sentence = body.index('class="card verdict"')
    assert (
        body.index("<h1>")
        < sentence
        < min(body.index(each) for each in ("<nav class", "<form", "<table") if each in body[sentence:])
    )
    assert set(re.findall(r"<table[^>]*>", body)) == {'<table class="rows">'}
    assert len(re.findall("<input(?![^>]*hidden)|<textarea|<select", body)) == len(re.findall("<label", body))
