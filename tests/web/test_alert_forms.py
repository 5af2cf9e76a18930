"""What people do on the pages of alerts, over a real server: who may, from where, what it changes, and what it does again."""

import re
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
import yaml

import published
from factories import HeldClock
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.receivers.message.content import content_of
from monitor.receivers.message.plain_text import plain_text
from monitor.storage import SqlStore, open_store
from monitor.web.access import Access, client_name
from monitor.web.pages import PageRequest
from monitor.web.pages.alerts import read_alert_page
from pipeline.test_delivery import EACH, SEGMENTS, Scene, scene  # noqa: F401 - a fixture
from servers.certificates import Authority, Pair, authority, client_pair, server_pair  # noqa: F401 - fixtures
from servers.chromium import TROUBLE
from web.sites import KIM, Site, access_of, basic, hashed, running
from web.stored_pages import EVIL, KEY, SLOTS, application, fill
from web.test_tls import tls_of

# ruff: noqa: F811 - fixtures are imported

NOW = SLOTS[-1] + timedelta(hours=6)
JOE = ("joe", "battery staple")
PAGE = f"/alerts/{KEY}"


@dataclass
class Browser:
    """Kim's, unless another is given."""

    site: Site
    store: SqlStore
    clock: HeldClock

    def get(self, path=PAGE, user=KIM):
        return self.site.get(path, user)[2].decode()

    def token(self, user=KIM):
        return unescape(re.findall(r'name="token" value="([^"]+)"', self.get("/alerts", user))[0])

    def post(self, fields, path=PAGE, user=KIM, **headers):
        """The status, and where it leads to or what it says."""
        known = {"token": self.token()} if user == KIM and "token" not in fields else {}
        status, answered, text = self.site.get(
            path, user, "POST", urlencode({**known, **fields}).encode(), **headers
        )
        return status, answered.get("location", unescape(text.decode()))

    @property
    def states(self):
        return [(each.state, each.acknowledged_by) for each in self.store.alerts.states()]

    @property
    def is_untouched(self):
        """Whether nothing was changed since ``fill``."""
        silences = self.store.alerts.silences(ending_after=None)
        changes = self.store.alerts.transitions(comparison=None, limit=9)
        return self.states == [("firing", None)] and not silences and len(changes) == 1


@contextmanager
def browser_of(store, access=None, tls=None, **given):
    clock = HeldClock(NOW)
    users = {name: hashed(password) for name, password in (KIM, JOE)}
    app = application(store, clock=clock, **given)
    with running(app, tls=tls, access=access or access_of(basic_auth_users=users)) as site:
        yield Browser(site, store, clock)


@pytest.fixture
def browser(store):
    fill(store)
    with browser_of(store) as browser:
        yield browser


def test_whoever_is_on_call_acknowledges_silences_expires_and_resolves_on_either_database_on_a_standby_too(
    database_url,
):
    with closing(open_store(database_url, create=True)) as store:
        fill(store)
        store.maintenance.stand_by()
        with browser_of(store) as browser:
            assert browser.post({"do": "acknowledge", "comment": " known \n"}) == (
                303,
                f"{PAGE}?done=acknowledge",
            )
            assert browser.states == [("firing", "kim")]
            assert "kim is on it" in browser.get()
            assert "No more messages about it are sent until it ends" in browser.get(
                f"{PAGE}?done=acknowledge"
            )
            assert "<b>" not in browser.get(f"{PAGE}?done=<b>")

            (offered,) = re.findall(r"<textarea[^>]*>(.*?)</textarea>", browser.get(), re.DOTALL)
            silence = {
                "do": "silence",
                "matchers": unescape(offered),
                "for": "2h",
                "comment": "why",
            }
            assert browser.post(silence) == (303, f"{PAGE}?done=silence")
            (made,) = store.alerts.silences(ending_after=NOW)
            assert made.matchers == ("alert=SimilarityLow", "comparison=home-feed")
            assert (made.author, made.comment) == ("kim", "why")
            assert (made.starts_at, made.ends_at) == (NOW, NOW + timedelta(hours=2))
            assert f"silence {made.id} of kim" in browser.get()

            vain = silence | {"matchers": "alert=SimilarityLo", "for": "2m"}
            assert browser.post(vain) == (303, f"{PAGE}?done=unmatched")
            assert "Did you mean SimilarityLow?" in browser.get("/alerts")

            browser.clock.pass_by(150)
            for outcome in ("expire", "nothing"):
                asked = {"do": "expire", "silence": str(made.id)}
                assert browser.post(asked, "/alerts") == (303, f"/alerts?done={outcome}")
            assert store.alerts.silences(ending_after=browser.clock.at) == ()

            assert browser.post({"do": "resolve", "comment": "rolled back"}) == (
                303,
                f"{PAGE}?done=resolve",
            )
            assert browser.states == [("quiet", None)]
            reasons = [each.reason for each in store.alerts.transitions(comparison=None, limit=2)]
            assert reasons == ["acknowledged by kim: known", "resolved by kim: rolled back"]


def test_what_is_sent_again_changes_nothing_and_says_so(browser):
    token = browser.token()
    silence = {"do": "silence", "matchers": "alert=SimilarityLow", "for": "1h", "token": token}
    done = [{"do": "acknowledge", "token": token}, silence, {"do": "resolve", "token": token}]
    for fields in done:
        assert browser.post(fields)[1] == f"{PAGE}?done={fields['do']}"
    browser.clock.pass_by(60)
    before = browser.states, browser.store.alerts.silences(ending_after=None)
    for fields in done:
        assert browser.post(fields)[1] == f"{PAGE}?done=nothing"
    assert (browser.states, browser.store.alerts.silences(ending_after=None)) == before
    assert "Nothing was changed" in browser.get(f"{PAGE}?done=nothing")
    assert (
        browser.post({**silence, "token": browser.token()})[1] == f"{PAGE}?done=silence"
    )  # a page that was loaded again


def test_a_form_without_its_token_or_of_another_incident_changes_nothing(browser, store):
    with browser_of(store) as old:
        ended = old.token()
    own, joes = browser.token(), browser.token(JOE)
    for token in (
        "",
        "nonsense~",
        "~",
        joes,
        ended,
        own.replace("2024", "2025"),
        own + "\u20ac",
        own[:-1],
    ):
        status, said = browser.post({"do": "resolve", "token": token})
        assert (status, "load the page of the form again" in said) == (403, True), token
    for path in ("/alerts/another-key", "/alerts", "/alerts/%3Cb%3E%00"):
        for what in ("resolve", "acknowledge"):
            assert browser.post({"do": what}, path)[0] == 303
    assert browser.is_untouched


def test_a_form_of_another_site_changes_nothing(store):
    elsewhere = [
        *(
            {"Origin": origin}
            for origin in (
                "https://evil.test",
                "null",
                "http://127.0.0.1:1",
                "http://127.0.0.1.evil.test",
            )
        ),
        *({"Sec-Fetch-Site": kind} for kind in ("cross-site", "same-site", "none", "")),
    ]
    here = [
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://hidden-by-a-proxy.test"},
        {"Host": "here.test", "Origin": "http://here.test"},
        {},
    ]
    fill(store)
    with browser_of(store) as browser:
        assert [
            browser.post({"do": "resolve"}, PAGE, KIM, **headers)[0] for headers in elsewhere
        ] == [403] * 8
        assert browser.is_untouched
        assert [browser.post({"do": "resolve"}, PAGE, KIM, **headers)[0] for headers in here] == [
            303
        ] * 3


def test_nobody_acts_where_nobody_is_known_by_name(store):
    fill(store)
    with browser_of(store, Access()) as browser:
        for path in (PAGE, "/alerts"):
            body = browser.get(path, None)
            assert "web_config_file" in body
            assert 'method="post"' not in body
            status, said = browser.post({"do": "resolve"}, path, None)
            assert (status, "basic_auth_users or verified client certificates" in said) == (
                403,
                True,
            )
    with browser_of(store) as browser:
        assert browser.post({"do": "resolve"}, user=("kim", "wrong"))[0] == 401
        assert browser.post({"do": "resolve"}, user=None)[0] == 401
        assert browser.is_untouched


@pytest.mark.integration
def test_a_client_certificate_names_who_acts(store, authority, server_pair, client_pair):
    fill(store)
    tls = tls_of(
        server_pair,
        client_ca_file=str(authority.cert),
        client_auth_type="RequireAndVerifyClientCert",
    )
    access = access_of(basic_auth_users={}, tls_server_config=tls)
    with browser_of(store, access, authority.client_context(client_pair)) as browser:
        assert browser.post({"do": "acknowledge"})[0] == 303
        assert browser.states == [("firing", "client")]


def test_of_a_certificate_with_names_but_no_subject_the_first_name_counts():
    assert client_name({"subjectAltName": (("DNS", "b.test"), ("DNS", "a.test"))}) == "a.test"


REFUSED = yaml.safe_load(r"""
- [{do: drop<script>}, 422, "there is no action 'drop<script>'"]
- [{do: expire, silence: "999999999999999999999999999999"}, 422, "there is no action 'expire' for '999"]
- [{do: expire, silence: ²}, 422, "there is no action 'expire' for '²'"]
- [&silence {do: silence, matchers: alert=A, for: ""}, 422, "the duration of the silence is wrong: not a duration"]
- [{<<: *silence, for: 0s}, 422, the silence would have no effect]
- [{<<: *silence, for: 2h, matchers: " \r\n"}, 422, the silence has no matcher]
- [{<<: *silence, for: 2h, matchers: everything}, 422, "'everything' is no matcher"]
- [{<<: *silence, for: 2h, matchers: alert=~(}, 422, is no regular expression]
""")


def test_what_cannot_be_done_is_said_with_what_to_do(browser):
    for fields, status, why in (
        *REFUSED,
        ({"do": "resolve", "comment": "x" * 20_000}, 422, "more than 16,384 bytes"),
    ):
        found, said = browser.post(fields)
        assert (found, why in said) == (status, True), said
    assert browser.is_untouched


def test_whatever_people_write_stays_text(browser):
    words = EVIL + "\x00"
    silence = {
        "do": "silence",
        "matchers": f"alert=SimilarityLow\ncomparison!={words}",
        "for": "1h",
        "comment": words,
    }
    assert browser.post({"do": "acknowledge", "comment": words})[0] == 303
    assert browser.post(silence)[0] == 303
    for path in (PAGE, "/alerts"):
        body = browser.get(path)
        assert "<script>alert" not in body
        assert not set(body) & {"\u202e", "\x1b", "\x00"}
        assert "&lt;script&gt;alert(1)" in body


def test_a_page_shows_messages_as_receivers_took_them_and_what_holds_them_back(scene):
    scene.fire_and_deliver(watched=EACH, segments=SEGMENTS)
    scene.clock.pass_by(60)
    scene.acknowledge("a=1")
    scene.deliver(after=timedelta(minutes=1))
    scene.fire(timedelta(days=1), watched=EACH, segments=(*SEGMENTS, "a=3"))
    scene.deliver(after=timedelta(minutes=1))
    key, window = (
        scene.receiver.sent[0].incident,
        SimpleNamespace(name="night", match=(), ends_at=lambda now: now),
    )
    at_night = published.site(
        store=scene.store, clock=scene.clock, policy=lambda: NotificationPolicy(windows=(window,))
    )
    assert [
        each[:36]
        for each in read_alert_page(at_night, PageRequest(path={"key": key}, chosen={})).held_alerts
    ] == ["SimilarityLow: maintenance night unt"]
    page = read_alert_page(
        published.site(store=scene.store, clock=scene.clock),
        PageRequest(path={"key": key}, chosen={}),
    )
    sent = [plain_text(content_of(each, "http://here")) for each in reversed(scene.receiver.sent)]
    assert [each.text for each in page.messages] == sent
    assert len(sent) == 2
    assert {each.receivers for each in page.messages} == {("fake",)}


@pytest.mark.integration
def test_an_incident_is_read_on_a_telephone_and_acknowledged_by_keyboard_without_javascript(
    browser, chromium
):
    tab = chromium.open_tab(width=390, has_script=False)
    tab.call("Network.setExtraHTTPHeaders", headers={"Authorization": basic(*KIM)})
    tab.go(f"{browser.site.server.url}{PAGE}")
    assert tab.run("document.documentElement.scrollWidth") == 390
    presses = 0
    while tab.run("document.activeElement.value") != "acknowledge":
        tab.press("Tab")
        presses += 1
        assert presses < 20
    tab.press_and_go("Enter")
    assert "Acknowledged" in tab.run("document.querySelector('[role=status]').textContent")
    assert [each for each in chromium.events if each["method"] in TROUBLE] == []
    assert browser.states == [("firing", "kim")]
