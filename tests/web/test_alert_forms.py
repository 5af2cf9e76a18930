"""The forms on the pages of alerts, over a real server: who may use them, what they change, and what a second click does."""

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import unescape
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
import yaml

import published
from factories import DAY, HOUR, MINUTE, HeldClock
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.receivers.message.content import content_of
from monitor.receivers.message.plain_text import plain_text
from monitor.storage import SqlStore
from monitor.web.access import Access, client_name
from monitor.web.pages import PageRequest
from monitor.web.pages.alerts import read_alert_page
from pipeline.test_delivery import EACH, SEGMENTS, Scene, scene  # noqa: F401 - a fixture
from servers.certificates import Authority, Pair, authority, client_pair, server_pair  # noqa: F401 - fixtures
from servers.chromium import TROUBLE
from storage.worked import store_at
from web.sites import KIM, Site, access_of, basic, hashed, running, tls_of
from web.stored_pages import EVIL, KEY, SLOTS, application, fill

# ruff: noqa: F811 - fixtures are imported

NOW = SLOTS[-1] + 6 * HOUR
JOE = ("joe", "battery staple")
PAGE = f"/alerts/{KEY}"


@dataclass
class Browser:
    """A browser in which Kim is logged in, unless another user is given."""

    site: Site
    store: SqlStore
    clock: HeldClock

    def get(self, path=PAGE, user=KIM):
        return self.site.get(path, user)[2].decode()

    def token(self, user=KIM):
        return unescape(re.findall(r'name="token" value="([^"]+)"', self.get("/alerts", user))[0])

    def post(self, do, path=PAGE, user=KIM, headers=None, **fields):
        """The status, and the address of the next page or the error message."""
        form = {"do": do, **fields}
        if user == KIM:
            form.setdefault("token", self.token())
        status, answered, text = self.site.get(
            path, user, "POST", urlencode(form).encode(), **(headers or {})
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


def test_people_acknowledge_silence_expire_and_resolve_on_either_database_and_on_a_standby(
    database_url,
):
    with store_at(database_url, create=True) as store:
        fill(store)
        store.maintenance.stand_by()
        with browser_of(store) as browser:
            done = f"{PAGE}?done=acknowledge"
            assert browser.post("acknowledge", comment=" known \n") == (303, done)
            assert browser.states == [("firing", "kim")]
            assert "kim is on it" in browser.get()
            assert "No more messages about it are sent until it ends" in browser.get(done)
            assert "<b>" not in browser.get(f"{PAGE}?done=<b>")

            (offered,) = re.findall(r"<textarea[^>]*>(.*?)</textarea>", browser.get(), re.DOTALL)
            silence = {"matchers": unescape(offered), "for": "2h", "comment": "why"}
            assert browser.post("silence", **silence) == (303, f"{PAGE}?done=silence")
            (made,) = store.alerts.silences(ending_after=NOW)
            assert made.matchers == ("alert=SimilarityLow", "comparison=home-feed")
            assert (made.author, made.comment) == ("kim", "why")
            assert (made.starts_at, made.ends_at) == (NOW, NOW + 2 * HOUR)
            assert f"silence {made.id} of kim" in browser.get()

            vain = silence | {"matchers": "alert=SimilarityLo", "for": "2m"}
            assert browser.post("silence", **vain) == (303, f"{PAGE}?done=unmatched")
            assert "Did you mean SimilarityLow?" in browser.get("/alerts")

            browser.clock.pass_by(150)
            for outcome in ("expire", "nothing"):
                answer = browser.post("expire", "/alerts", silence=str(made.id))
                assert answer == (303, f"/alerts?done={outcome}")
            assert not store.alerts.silences(ending_after=browser.clock.at)

            done = f"{PAGE}?done=resolve"
            assert browser.post("resolve", comment="rolled back") == (303, done)
            assert browser.states == [("quiet", None)]
            reasons = [each.reason for each in store.alerts.transitions(comparison=None, limit=2)]
            assert reasons == ["acknowledged by kim: known", "resolved by kim: rolled back"]


def test_what_is_sent_again_changes_nothing_and_says_so(browser):
    token = browser.token()
    silence = {"matchers": "alert=SimilarityLow", "for": "1h"}
    done = {"acknowledge": {}, "silence": silence, "resolve": {}}
    for do, fields in done.items():
        assert browser.post(do, token=token, **fields)[1] == f"{PAGE}?done={do}"
    browser.clock.pass_by(60)
    before = browser.states, browser.store.alerts.silences(ending_after=None)
    nothing = f"{PAGE}?done=nothing"
    for do, fields in done.items():
        assert browser.post(do, token=token, **fields)[1] == nothing
    assert (browser.states, browser.store.alerts.silences(ending_after=None)) == before
    assert "Nothing was changed" in browser.get(nothing)
    # A page that was loaded again has a new token.
    assert browser.post("silence", **silence)[1] == f"{PAGE}?done=silence"


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
        f"{own}\u20ac",
        own[:-1],
    ):
        status, said = browser.post("resolve", token=token)
        assert (status, "load the page of the form again" in said) == (403, True), token
    for path in ("/alerts/another-key", "/alerts", "/alerts/%3Cb%3E%00"):
        for what in ("resolve", "acknowledge"):
            assert browser.post(what, path)[0] == 303
    assert browser.is_untouched


def test_a_form_of_another_site_changes_nothing(browser):
    origins = ("https://evil.test", "null", "http://127.0.0.1:1", "http://127.0.0.1.evil.test")
    elsewhere = [{"Origin": origin} for origin in origins]
    for kind in ("cross-site", "same-site", "none", ""):
        elsewhere.append({"Sec-Fetch-Site": kind})
    here = [
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://hidden-by-a-proxy.test"},
        {"Host": "here.test", "Origin": "http://here.test"},
        {},
    ]
    for headers in elsewhere:
        assert browser.post("resolve", headers=headers)[0] == 403, headers
    assert browser.is_untouched
    for headers in here:
        assert browser.post("resolve", headers=headers)[0] == 303, headers


def test_nobody_acts_where_nobody_is_known_by_name(browser, store):
    for user in (("kim", "wrong"), None):
        assert browser.post("resolve", user=user)[0] == 401
    with browser_of(store, Access()) as anybody:
        for path in (PAGE, "/alerts"):
            body = anybody.get(path, None)
            assert "web_config_file" in body
            assert 'method="post"' not in body
            status, said = anybody.post("resolve", path, None)
            assert status == 403
            assert "basic_auth_users or verified client certificates" in said
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
        assert browser.post("acknowledge")[0] == 303
        assert browser.states == [("firing", "client")]


def test_of_a_certificate_with_names_but_no_subject_the_first_name_counts():
    assert client_name({"subjectAltName": (("DNS", "b.test"), ("DNS", "a.test"))}) == "a.test"


REFUSED = yaml.safe_load(r"""
- [{do: drop<script>}, "there is no action 'drop<script>'"]
- [{do: expire, silence: "999999999999999999999999999999"}, "there is no action 'expire' for '999"]
- [{do: expire, silence: ²}, "there is no action 'expire' for '²'"]
- [&silence {do: silence, matchers: alert=A, for: ""}, "the duration of the silence is wrong: not a duration"]
- [{<<: *silence, for: 0s}, the silence would have no effect]
- [{<<: *silence, for: 2h, matchers: " \r\n"}, the silence has no matcher]
- [{<<: *silence, for: 2h, matchers: everything}, "'everything' is no matcher"]
- [{<<: *silence, for: 2h, matchers: alert=~(}, is no regular expression]
""")


def test_what_cannot_be_done_is_refused_with_what_to_do(browser):
    too_long = {"do": "resolve", "comment": "x" * 20_000}
    for fields, why in (*REFUSED, (too_long, "more than 16,384 bytes")):
        status, said = browser.post(**fields)
        assert (status, why in said) == (422, True), said
    assert browser.is_untouched


def test_whatever_people_write_stays_text(browser):
    words = f"{EVIL}\x00"
    silence = {"matchers": f"alert=SimilarityLow\ncomparison!={words}", "for": "1h"}
    assert browser.post("acknowledge", comment=words)[0] == 303
    assert browser.post("silence", comment=words, **silence)[0] == 303
    for path in (PAGE, "/alerts"):
        body = browser.get(path)
        assert "<script>alert" not in body
        assert not set(body) & {"\u202e", "\x1b", "\x00"}
        assert "&lt;script&gt;alert(1)" in body


def test_a_page_shows_messages_as_they_were_sent_and_why_others_are_held_back(scene):
    scene.fire_and_deliver(watched=EACH, segments=SEGMENTS)
    scene.clock.pass_by(60)
    scene.acknowledge("a=1")
    scene.deliver(after=MINUTE)
    scene.fire(DAY, watched=EACH, segments=(*SEGMENTS, "a=3"))
    scene.deliver(after=MINUTE)
    request = PageRequest(path={"key": scene.receiver.sent[0].incident}, chosen={})
    window = SimpleNamespace(name="night", match=(), ends_at=lambda now: now)
    site = published.site(store=scene.store, clock=scene.clock)
    at_night = replace(site, policy=NotificationPolicy(windows=(window,)))
    (held,) = read_alert_page(at_night, request).held_alerts
    assert held.startswith("SimilarityLow: maintenance night unt")
    page = read_alert_page(site, request)
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
    assert not [each for each in chromium.events if each["method"] in TROUBLE]
    assert browser.states == [("firing", "kim")]
