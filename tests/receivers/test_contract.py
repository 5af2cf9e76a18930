"""What every receiver promises: hostile names stay text, and errors say what to do without a secret."""

import re
from email import message_from_bytes
from email.header import decode_header, make_header
from email.policy import default
from types import SimpleNamespace

import pytest

from messages import HOSTILE, URL, hostile_message, message, send, start
from monitor.model.errors import DeliveryError
from monitor.receivers import ReceiverOptions
from monitor.testing import ReceiverContract
from servers.pagerduty import KEY
from servers.slack import PATH
from servers.smtp import MailServer
from servers.webhook import answer, trickle_body
from tables import parsed

TO = ["kim@example.com"]


MARKUP = "<b>R&D</b> [x](https://y.test) *z*"
ESCAPED = "&lt;b&gt;R&amp;D&lt;/b&gt; ["
MAIL = {"host": "127.0.0.1", "tls": "none", "sender": "rankwatch@example.com", "to": TO}
PLACES = {
    "alertmanager": ("collector", "/api/v2/alerts", lambda to: {"urls": [to.url]}, MARKUP),
    "pagerduty": (
        "pagerduty",
        "/v2/enqueue",
        lambda to: {"url": to.url, "routing_key": KEY},
        MARKUP,
    ),
    "slack": ("slack", PATH, lambda to: {"url": to.url}, ESCAPED),
    "email": ("mail_server", "", lambda to: {**MAIL, "port": to.port}, ESCAPED),
    "apprise": (
        "collector",
        "/hook",
        lambda to: {"urls": {"one": f"{to.url.replace('http:', 'json:')}/hook"}},
        "<\u200bb>R&D<\u200b/b> [",
    ),
    "webhook": ("collector", "/hook", lambda to: {"url": f"{to.url}/hook"}, MARKUP),
}
"""For each kind of receiver: the fixture that it sends to, the path where it posts, its options, and MARKUP as it writes it.

A format without markup contains MARKUP as it is.
"""
KINDS = [
    pytest.param(kind, marks=pytest.mark.integration if kind == "email" else ()) for kind in PLACES
]
"""A mail server shows a certificate, which is made by openssl."""


class TestEveryKind(ReceiverContract):
    @pytest.fixture(params=KINDS)
    def present(self, request):
        fixture, _, options, _ = PLACES[request.param]
        return {request.param: options(request.getfixturevalue(fixture))}

    @pytest.fixture(params=PLACES)
    def away(self, request):
        nobody = SimpleNamespace(url="http://127.0.0.1:1", port=1)
        return {request.param: PLACES[request.param][2](nobody)}


def strings(found):
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for name, value in found.items():
            yield from (name, *strings(value))
    elif isinstance(found, list):
        for value in found:
            yield from strings(value)


def require_harmless(body, headers, texts):
    """Of bounded size.

    All prints but for line breaks, the left-to-right mark and what breaks a mention; no header is
    long.
    """
    assert len(body) < 400_000
    headings = [str(make_header(decode_header(value))) for value in headers.values()]
    assert all(len(heading) < 1000 for heading in headings)
    for text in (*headings, *texts):
        assert re.sub("[\n\u200b\u200e]", "", text).isprintable()


def texts_of(request):
    is_json = request.headers["Content-Type"].startswith("application/json")
    return list(strings(request.json())) if is_json else [request.body.decode()]


def require_harmless_mail(mail):
    """The texts of its parts: plain, then as a page."""
    found = message_from_bytes(mail.content.replace(b"\r\n", b"\n"), policy=default)
    texts = [str(part.get_content()) for part in found.walk() if not part.is_multipart()]
    require_harmless(mail.content, dict(found.items()), texts)
    assert (mail.to, found["Bcc"]) == (tuple(TO), None)
    assert not any(tag in texts[1] for tag in ("<script", "<img", 'href="javascript'))
    return texts


def test_every_kind_of_receiver_has_a_place_here():
    assert ReceiverOptions.model_fields.keys() == PLACES.keys()


def received(kind, server):
    """The texts of the newest message, and the values of its headers over HTTP."""
    if isinstance(server, MailServer):
        return require_harmless_mail(server.mails[-1]), []
    collector = getattr(server, "collector", server)
    posted = collector.requests[-1]
    address = collector.url.removeprefix("http://")
    assert (posted.path, posted.headers["Host"]) == (PLACES[kind][1], address)
    texts = texts_of(posted)
    require_harmless(posted.body, posted.headers, texts)
    return texts, [*posted.headers.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_receiver_shows_them_as_text(kind, request):
    fixture, _, options, shown = PLACES[kind]
    server = request.getfixturevalue(fixture)
    wanted = {"pagerduty": {KEY, hostile_message("").incident}, "alertmanager": {"critical"}}
    for text in HOSTILE.values():
        send(hostile_message(text), **{kind: options(server)})
        texts, headers = received(kind, server)
        # No header holds the name but encoded.
        assert all(text[:12].isalnum() or text[:12] not in value for value in headers)
        assert any(URL in each for each in (*texts, *headers))
        assert "evil" not in {*texts, *headers}
        assert wanted.get(kind, set()) <= {*texts, *headers}

    send(hostile_message(MARKUP), **{kind: options(server)})
    texts, _ = received(kind, server)
    page = texts[-1] if kind == "email" else "".join(texts)  # a mail has the plain text, too
    assert shown in page, f"{kind}: PLACES says how a name is escaped"
    assert shown == MARKUP or MARKUP[:4] not in page


def test_a_thousand_changes_of_huge_names_are_sent_within_the_limits(slack, pagerduty):
    huge = "\U0001f600" * 100_000
    names = dict.fromkeys(("segment", "alert", "reason", "explanation"), huge)
    changes = [start(dedup_key=str(number), **names) for number in range(1000)]
    hostile = message(*changes, briefing=hostile_message(huge).briefing)
    send(hostile, slack={"url": slack.url})
    send(hostile, pagerduty={"url": pagerduty.url, "routing_key": KEY})
    for (request,) in (slack.collector.requests, pagerduty.collector.requests):
        require_harmless(request.body, request.headers, texts_of(request))


OVER_HTTP = pytest.mark.parametrize(
    "kind", sorted(PLACES.keys() - {"email", "apprise"})
)  # these two answer otherwise


def refuse(kind, reply, request):
    """What comes of this answer, and who gave it."""
    fixture, _, options, _ = PLACES[kind]
    server = request.getfixturevalue(fixture)
    collector = getattr(server, "collector", server)
    collector.replies.append(reply)
    with pytest.raises(DeliveryError) as caught:
        send(message(start()), **{kind: options(server)})
    assert not any(secret in str(caught.value) for secret in (KEY, "canary", "/hook"))
    return caught.value, f"{kind} at {collector.url}"


REFUSALS = parsed("""
    [401, {}, [true, false, null], "answered 401 Unauthorized: check its credentials"]
    [503, {"Retry-After": "9"}, [false, true, 9.0], "answered 503 Service Unavailable: a later attempt may succeed"]
    [302, {"Location": "/"}, [false, false, null], "answered 302 Found: redirects are not followed: write the final URL"]
""")


@OVER_HTTP
def test_a_refusal_names_the_receiver_and_is_permanent_or_tried_again(kind, request):
    for status, headers, wanted, said in REFUSALS:
        error, who = refuse(kind, answer(status, headers, f"{PATH} is gone".encode()), request)
        assert [error.permanent, error.may_be_known, error.retry_after_s] == wanted
        assert str(error) == f"{who} {said}"
    error, _ = refuse(
        kind, answer(413), request
    )  # it is sent in parts but where its size is bounded
    assert (error.permanent, error.of_message) == (True, kind in {"alertmanager", "webhook"})


@pytest.mark.parametrize("kind", ["pagerduty", "slack"])  # whose bodies say whether they took it
def test_a_message_is_taken_though_the_answer_s_body_does_not_come_to_its_end(kind, request):
    server = request.getfixturevalue(kind)
    server.collector.replies.append(trickle_body)
    send(message(start()), **{kind: {"timeout": "1s", **PLACES[kind][2](server)}})
