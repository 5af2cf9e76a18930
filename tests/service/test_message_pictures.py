"""What goes out with a picture, over real SMTP and through Apprise, and what goes without."""

import io
from dataclasses import replace
from email import message_from_bytes
from email.policy import default
from functools import partial
from typing import Any

import pytest
from PIL import Image

from factories import DAY, SLOT, HeldClock
from logs import captured
from messages import FIRING, HOSTILE, START, message
from monitor.pipeline.delivery import OutboxSender
from monitor.receivers import ReceiverOptions, open_receivers
from monitor.service import message_pictures
from monitor.service.message_pictures import MessagePictures
from pipeline.alerting_run import WATCHED, CountingPublisher, store_run
from servers.webhook import answer

pytestmark = pytest.mark.integration  # certificates are made by openssl, and drawing costs seconds
NAMES = [f"x={HOSTILE[name][:10_000]}" for name in ("html", "controls", "right to left", "wide")]
CONFIGURED = {"home-feed": WATCHED}


@pytest.fixture
def pictures(store):
    """Of a comparison that fires in the last of 22 runs, in segments of hostile names too."""
    message_pictures._draw_png.cache_clear()
    for day in range(22):
        slot = SLOT + (day - 21) * DAY
        mean = 0.6 + day % 3 / 50 if day < 21 else 0.3
        store_run(store, mean, slot=slot, to=["email", "apprise"], segments=["all", *NAMES])
    return MessagePictures(store)


def deliver(pictures, **receiver):
    """The receiver, once it has what is owed to it."""
    (opened,) = open_receivers(
        [ReceiverOptions.model_validate(receiver)], external_url="http://rankwatch.test"
    )
    counting = CountingPublisher()
    parts: Any = {
        "outbox": pictures._store.outbox,
        "clock": HeldClock(),
        "publisher": counting,
        "owner": "me",
    }
    OutboxSender(
        receiver=opened, picture_of=partial(pictures.draw, CONFIGURED), **parts
    ).deliver_due()
    assert counting.counts == {(opened.name, "sent"): 1}
    return opened


def mailed(pictures, server):
    server.offers = ()
    place = {"host": "127.0.0.1", "port": server.port, "tls": "none"}
    deliver(pictures, email={**place, "sender": "rankwatch@example.com", "to": ["kim@example.com"]})
    (mail,) = server.mails
    return message_from_bytes(mail.content, policy=default)


def test_a_picture_is_drawn_once_for_all_receivers_with_any_names(pictures):
    drawn = pictures.draw(CONFIGURED, START)
    assert drawn is pictures.draw(CONFIGURED, replace(START, incident="another"))
    assert Image.open(io.BytesIO(drawn or b"")).size == (960, 322)
    assert pictures.draw(CONFIGURED, message(replace(FIRING, segment=NAMES[-1])))


def test_a_mail_shows_the_chart_only_in_its_html(pictures, mail_server):
    text, related = mailed(pictures, mail_server).iter_parts()
    page, picture = related.iter_parts()
    assert [each.get_content_type() for each in (related, page, picture)] == [
        "multipart/related",
        "text/html",
        "image/png",
    ]
    assert f'<img src="cid:{picture["Content-ID"][1:-1]}"' in page.get_content()
    assert "cid" not in text.get_content()
    assert picture.get_content_disposition() == "inline"
    drawn = Image.open(io.BytesIO(picture.get_content()))
    assert drawn.size == (960, 322)
    assert len(drawn.getcolors() or ()) > 20


def test_a_service_that_rejects_the_picture_gets_only_the_text(pictures, collector):
    collector.replies.append(answer(413))
    deliver(pictures, apprise={"urls": {"chat": collector.url.replace("http:", "json:")}})
    attached = [
        [each["mimetype"] for each in request.json()["attachments"]]
        for request in collector.requests
    ]
    assert attached == [["image/png"], []]


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("_TO_PNG", "raise SystemExit('no ink')", "RuntimeError in message_pictures"),
        ("_LIBRARIES", ("none",), "pip install"),
    ],
)
def test_without_a_picture_the_message_is_sent_and_the_log_has_the_reason_once(
    pictures, mail_server, monkeypatch, name, value, said
):
    log = captured(monkeypatch, message_pictures)
    monkeypatch.setattr(message_pictures, name, value)
    lacking = MessagePictures(pictures._store)
    assert b"image/png" not in mailed(lacking, mail_server).as_bytes()
    assert lacking.draw(CONFIGURED, START) is None
    (line,) = log.entries
    assert said in str(line)
