"""Who is let in by which request, over a real socket.

And how much work it is to find out, which is counted, not timed.
"""

import base64
import select
import threading
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import product
from unittest.mock import Mock

import pytest
from pydantic import SecretStr

from monitor.web.access import Access, Credentials, read_access
from servers.daemon import wait_for
from web.sites import KIM, access_of, basic, hashed, serving

REFUSED = (401, b"unauthorized\n")


@pytest.fixture
def site(health):
    with serving(health) as site:
        yield site


def test_pages_need_a_password(site):
    for path in [
        "/metrics",
        "/",
        "/api/v1/gate/feed",
        "/no-such-page",
        "/docs/",
        "/-/ready/",
        "/-/",
        "//-/healthy",
    ]:
        status, headers, body = site.get(path)
        assert (status, body) == REFUSED
        assert headers["www-authenticate"] == 'Basic realm="rankwatch", charset="UTF-8"'
    assert site.status("/metrics", KIM) == 200


def test_wrong_credentials_are_all_refused_alike(site):
    headers = [
        "",
        "Basic",
        "Basic !!!",
        "Basic a2lt",
        "Bearer " + base64.b64encode(b"kim:correct horse").decode(),
    ]
    pairs = [
        ("kim", "wrong"),
        ("kim", "correct horse "),
        ("nobody", "correct horse"),
        ("kim\0", "correct horse"),
    ]
    for header in (*headers, *(basic(*pair) for pair in pairs)):
        assert site.get("/metrics", Authorization=header)[::2] == REFUSED, header
    with closing(site.connect()) as connection:
        connection.putrequest("GET", "/metrics")
        for user in (KIM, ("kim", "wrong")):
            connection.putheader("Authorization", basic(*user))
        connection.endheaders()
        assert connection.getresponse().status == 401


def test_the_scheme_is_read_in_any_case_and_credentials_as_utf_8():
    with serving(basic_auth_users={"jürgen": hashed("pässwörd")}) as site:
        right = basic("jürgen", "pässwörd")
        assert site.status(Authorization=right.replace("Basic", "bAsIc ")) == 200


def test_no_answer_leads_to_a_host_that_the_client_named(site):
    for path in ("/metrics/", "/-/ready/", "/comparisons/feed/"):
        status, headers, _ = site.get(path, KIM, Host="evil.test")
        assert (status, headers.get("location")) == (404, None)


def test_probes_need_no_password_and_give_strangers_no_reason(site, health):
    health.sick, health.lacking = "the scheduler has stopped", "no database at db.internal"
    assert site.get("/-/healthy")[::2] == (503, b"not healthy\n")
    assert site.get("/-/ready")[::2] == (503, b"not ready\n")
    assert site.get("/-/ready", KIM)[::2] == (503, b"not ready: no database at db.internal\n")
    assert site.status("/-/ready", ("kim", "wrong")) == 401
    health.sick = None
    assert site.get("/-/healthy")[::2] == (200, b"healthy\n")


class Slow(Credentials):
    """Verifies only the right password before it is released."""

    def __init__(self, users):
        super().__init__(users)
        self.release, self.begun = threading.Event(), threading.Semaphore(0)
        self.at_once = self.most = 0

    def verify(self, user, password):
        if password != KIM[1].encode():
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self.begun.release()
            self.release.wait(300)
            self.at_once -= 1
        return super().verify(user, password)


def _guess(number):
    return f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: {basic('kim', f'guess{number}')}\r\n\r\n".encode()


def test_wrong_passwords_wait_in_one_thread_four_of_an_address_and_those_known_do_not_wait_also_after_a_reload():
    users = {KIM[0]: hashed(KIM[1])}
    slow = Slow(users)
    access = replace(access_of(basic_auth_users=users), credentials=slow)
    with ExitStack() as opened, serving(access=access) as site:
        opened.callback(slow.release.set)
        assert site.status("/metrics", KIM) == 200
        guesses = [opened.enter_context(site.open(_guess(number))) for number in range(10)]
        wait_for(lambda: len(select.select(guesses, [], [], 0)[0]) == 6, "six turned away")

        assert slow.begun.acquire(timeout=60)
        assert site.status("/metrics", KIM) == 200
        assert site.status("/-/healthy") == 200
        site.server.use_access(access_of(old=site.server.access, basic_auth_users=users))
        assert site.status("/metrics", KIM) == 200

        slow.release.set()
        statuses = Counter(each.recv(12) for each in guesses)
    assert statuses == {b"HTTP/1.1 503": 6, b"HTTP/1.1 401": 4}
    assert slow.most == 1


def test_a_reload_forgets_passwords_only_where_users_change():
    kim, joe = ({name: hashed("x")} for name in ("kim", "joe"))
    first = access_of(basic_auth_users=kim)
    assert access_of(old=first, basic_auth_users=kim).credentials is first.credentials
    assert access_of(old=first, basic_auth_users=joe).credentials is not first.credentials
    assert not read_access(None, old=first).credentials


def test_who_has_a_password_may_reload_by_a_post_and_learns_the_outcome():
    left = [False, True]
    with serving(reload=left.pop) as site:
        assert site.status("/-/reload", KIM) == 405
        assert (site.status("/-/reload", method="POST"), left) == (401, [False, True])
        assert [site.status("/-/reload", KIM, method="POST") for _ in range(2)] == [200, 500]


def test_nobody_reloads_where_nobody_is_asked_for_a_password():
    left = [True]
    with serving(access=Access(), reload=left.pop) as site:
        assert (site.status("/-/reload", method="POST"), left) == (403, [True])


def test_the_right_password_alone_is_right_by_hashes_of_every_maker():
    for prefix in ["2a", "2b", "2y"]:
        credentials = Credentials({"kim": hashed("pass:word", prefix=prefix)})
        assert credentials.verify(b"kim", b"pass:word")
        for wrong in (b"pass", b"", b"\0", b"\xff\xfe", b"pass:word\0", b"x" * 100_000):
            assert not credentials.verify(b"kim", wrong)
            assert not credentials.verify(wrong, b"pass:word")
        assert not credentials.verify(b"KIM", b"pass:word")
        assert not credentials.verify(b"", b"")


def test_a_password_beyond_72_bytes_is_cut_as_its_hash_was():
    credentials = Credentials({"kim": hashed("x" * 72)})
    assert credentials.verify(b"kim", b"x" * 72 + b"anything")
    assert not credentials.verify(b"kim", b"x" * 71)


def test_what_was_right_once_is_remembered_and_nothing_else_is():
    credentials = Credentials({"kim": hashed("secret")})
    assert not credentials.remembers(b"kim", b"secret")
    credentials.verify(b"kim", b"wrong")
    credentials.verify(b"kim", b"secret")
    assert credentials.remembers(b"kim", b"secret")
    for user, password in ((b"kim", b"wrong"), (b"kims", b"ecret"), (b"", b"kimsecret")):
        assert not credentials.remembers(user, password)


def test_every_attempt_costs_as_much_as_the_costliest_hash_whoever_it_is_and_right_or_wrong():
    costs = {"kim": 4, "joe": 10, "\u00fc": 16, "": 5}
    users = {name: SecretStr(f"$2b${cost:02d}${'.' * 53}") for name, cost in costs.items()}
    for user, is_right in product([*users, "nobody"], (False, True)):
        compare = Mock(return_value=is_right)
        Credentials(users, compare=compare).verify(user.encode(), b"password")
        rounds = [2 ** int(call.args[1][4:6]) for call in compare.call_args_list]
        assert sum(rounds) == 2**16, user
