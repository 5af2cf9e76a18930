from dataclasses import replace
from email import message_from_bytes
from email.policy import default

import pytest

from factories import SLOT
from messages import BRITISH, ENDED, FIRING, SEEN, START, URL, message, opened, send
from monitor.model.errors import ConfigError, DeliveryError
from monitor.receivers.email import LEGEND, EmailOptions
from servers.smtp import LOGIN, cut, flood, hang, talk_nonsense, trickle

pytestmark = pytest.mark.integration
"""The server shows a certificate, which is made by openssl."""
TO = ["kim@example.com", "lee@example.com"]
PASSWORD = {"username": LOGIN[0], "password": LOGIN[1]}


@pytest.fixture
def options(mail_server, certificate):
    return {
        "host": "127.0.0.1",
        "port": mail_server.port,
        "sender": "rankwatch@example.com",
        "to": TO,
        "ca_file": str(certificate),
        "timeout": "5s",
    }


def failure(options, **more):
    with pytest.raises(DeliveryError) as caught:
        send(START, email={**options, **more})
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def read(mail):
    return message_from_bytes(mail.content, policy=default)


def part(mail, kind):
    body = read(mail).get_body((kind,))
    return str(body.get_content())


def test_a_mail_goes_to_everybody_in_one_exchange_over_starttls(mail_server, options):
    send(START, email=options)
    (mail,) = mail_server.mails
    assert (mail.sender, mail.to) == ("rankwatch@example.com", tuple(TO))
    assert (mail.is_secure, mail.is_known) == (True, False)
    headers = read(mail)
    assert headers["From"] == "rankwatch <rankwatch@example.com>"
    assert headers["To"] == "kim@example.com, lee@example.com"
    assert headers["Subject"].startswith(
        f"[FIRING] [critical] home-feed: {FIRING.reason} (incident "
    )
    assert headers["Date"] == "Mon, 08 Jan 2024 00:00:00 +0000"
    assert (headers["Auto-Submitted"], headers["Importance"]) == ("auto-generated", "high")
    assert mail_server.steps == ["EHLO", "STARTTLS", "EHLO", "MAIL", "RCPT", "RCPT", "DATA", "QUIT"]


def test_text_and_html_say_the_same_and_load_nothing(mail_server, options):
    change = replace(FIRING, reason="." * 200)  # a line of a single dot ends nothing
    send(message(change), email=options)
    text, page = part(mail_server.mails[0], "plain"), part(mail_server.mails[0], "html")
    for said in (
        change.reason,
        "0.24 to 0.268",
        "1,874",
        "rankwatch show home-feed --slot 2024-01-08T00:00:00Z",
        LEGEND,
    ):
        assert said in text
        assert said in page
    link = f"{URL}/c/home-feed/runs/2024-01-08T00:00:00Z?segment=all"
    assert f"run: {link}" in text
    assert f'<a href="{link}">run</a>' in page
    for loading in ("src=", "<img", "<script", "url(", "<link", "@import"):
        assert loading not in page


def test_mails_of_one_incident_are_one_thread_and_the_same_message_has_the_same_id(
    mail_server, options
):
    other = message(BRITISH, firing=(BRITISH,), incident="incident-2")
    later = [message(each, first=(FIRING,)) for each in (SEEN, ENDED)]
    send(START, *later, other, START, email=options)
    *mails, again = [read(mail) for mail in mail_server.mails]
    subjects = [str(mail["Subject"]).partition("] ") for mail in mails]
    statuses = "[FIRING [ACKNOWLEDGED [RESOLVED [FIRING"
    assert " ".join(status for status, *_ in subjects) == statuses
    for thread in ([rest for *_, rest in subjects], [mail["References"] for mail in mails]):
        assert thread[0] == thread[1] == thread[2] != thread[3]
    assert len({mail["Message-ID"] for mail in mails}) == 4
    assert again["Message-ID"] == mails[0]["Message-ID"]
    assert all(mail["In-Reply-To"] == mail["References"] != mail["Message-ID"] for mail in mails)


def test_a_login_is_sent_under_tls_only(mail_server, options):
    for offer in ("AUTH PLAIN", "AUTH LOGIN"):
        mail_server.offers = ("STARTTLS", offer)
        send(START, email={**options, **PASSWORD})
    assert [mail.is_known for mail in mail_server.mails] == [True, True]
    assert mail_server.steps[:4] == ["EHLO", "STARTTLS", "EHLO", "AUTH"]
    mail_server.offers, mail_server.steps = (), []
    error = failure(options, **PASSWORD)
    assert (error.permanent, mail_server.steps) == (True, ["EHLO", "QUIT"])
    assert "does not offer STARTTLS" in str(error)


def test_tls_can_begin_with_the_first_byte_or_be_turned_off(mail_server, options):
    mail_server.offers = ()
    send(START, email={**options, "tls": "none"})
    mail_server.is_implicit = True
    send(START, email={**options, "tls": "implicit"})
    assert [mail.is_secure for mail in mail_server.mails] == [False, True]


def test_a_certificate_nobody_vouches_for_is_refused(mail_server, options):
    for tls in ("starttls", "implicit"):
        mail_server.is_implicit = tls == "implicit"
        error = failure({**options, "ca_file": None}, tls=tls)
        assert "has a certificate of an unknown authority" in str(error)
        assert not error.may_be_known


def test_an_authority_that_cannot_be_read_is_an_error_when_the_receiver_is_opened(
    options, tmp_path
):
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for path in (tmp_path / "nowhere.pem", empty):
        with pytest.raises(ConfigError, match="cannot be read as PEM"):
            opened(email={**options, "ca_file": str(path)})


STEPS = ["CONNECT", "EHLO", "STARTTLS", "MAIL", "RCPT", "DATA", "CONTENT"]


@pytest.mark.parametrize("step", STEPS)
def test_a_4xx_or_a_cut_at_any_step_may_pass_and_may_be_known_only_once_the_content_is_due(
    mail_server, options, step
):
    if step != "CONNECT":
        for code in (421, 451):
            mail_server.plan(step, *[f"{code} 4.3.0 canary"] * 2)
            mail_server.plan("HELO", *[f"{code} 4.3.0 canary"] * (step == "EHLO"))
            error = failure(options)
            assert (error.permanent, error.may_be_known, error.of_message) == (False, False, False)
            assert f"{code} 4.3.0: a later attempt may succeed" in str(error)
            assert "canary" not in str(error)
            mail_server.answers.clear()
    mail_server.plan(step, cut)
    mail_server.plan("HELO", *[cut] * (step == "EHLO"))
    error = failure(options)
    assert (error.permanent, error.may_be_known) == (False, step in {"DATA", "CONTENT"})
    assert "closed the connection or did not answer in SMTP" in str(error)
    assert not mail_server.mails


REFUSED = {
    "MAIL": "the sender with {}: check `sender`, and check that this host or login may use this address",
    "RCPT": "all recipients with {}: check `to`",
    "DATA": "the message with {}: the server refuses this message",
}
REFUSED["CONTENT"] = REFUSED["DATA"]


@pytest.mark.parametrize("step", REFUSED)
def test_a_5xx_is_permanent_and_says_at_which_step(mail_server, options, step):
    mail_server.plan(step, *["554 5.7.1 canary <script>"] * 2)
    error = failure(options)
    is_of_message = step in {"DATA", "CONTENT"}
    assert (error.permanent, error.may_be_known, error.of_message) == (True, False, is_of_message)
    said = REFUSED[step].format("554 5.7.1")
    assert str(error) == f"email at 127.0.0.1:{mail_server.port} refused {said}"


def test_a_refused_login_is_reported_without_the_password_that_the_server_repeats(
    mail_server, options
):
    for code, is_permanent in ((454, False), (535, True), (534, True)):
        mail_server.plan("AUTH", f"{code} canary-password")
        error = failure(options, **PASSWORD)
        assert error.permanent is is_permanent
        assert f"refused the login with {code}: " in str(error)
        assert "canary" not in str(error)
    for offers in (("STARTTLS",), ("STARTTLS", "AUTH GSSAPI")):
        mail_server.offers = offers
        error = failure(options, **PASSWORD)
        assert error.permanent
        assert "offers no login method that rankwatch supports" in str(error)


@pytest.mark.parametrize(
    "step, act", [*((step, hang) for step in STEPS), ("EHLO", trickle), ("CONTENT", trickle)]
)
def test_silence_and_drops_at_any_step_end_at_the_deadline(mail_server, options, step, act):
    mail_server.plan(step, act)
    may_be_known = step in {"DATA", "CONTENT"}
    timeout_s = 2 if may_be_known else 0.3  # to come so far
    error = failure(options, timeout=f"{timeout_s * 1000:.0f}ms")
    assert (
        str(error) == f"email at 127.0.0.1:{mail_server.port} did not answer within {timeout_s} s"
    )
    assert (error.permanent, error.may_be_known) == (False, may_be_known)


@pytest.mark.parametrize("step", ["CONNECT", "MAIL", "CONTENT"])
def test_what_is_no_answer_is_never_a_refusal_for_good(mail_server, options, step):
    for act, timeout in ((flood, "1s"), (talk_nonsense, "5s")):
        mail_server.plan(step, act)
        assert not failure(options, timeout=timeout).permanent


def test_a_goodbye_that_never_comes_delivers_all_the_same(mail_server, options):
    mail_server.plan("QUIT", hang)
    send(START, email={**options, "timeout": "30s"})
    assert len(mail_server.mails) == 1


def test_those_refused_for_good_are_named_once_the_others_have_the_mail_and_for_now_tried_again_alone(
    mail_server, options
):
    kim, lee = TO
    mail_server.by_recipient = {lee: "550 5.1.1 who?"}
    error = failure(options)
    assert (error.permanent, error.may_be_known) == (True, True)
    assert str(error).endswith(
        "refused lee@example.com with 550 5.1.1: check these addresses; 1 of 2 recipients have "
        "the mail"
    )
    receiver = opened(email=options)
    mail_server.by_recipient = {lee: "451 4.7.1 greylisted"}
    for _ in range(2):
        with pytest.raises(DeliveryError) as caught:
            receiver.send(START, now=SLOT)
        assert (caught.value.permanent, caught.value.may_be_known) == (False, True)
    mail_server.by_recipient = {}
    receiver.send(START, now=SLOT)
    assert [mail.to for mail in mail_server.mails] == [(kim,), (kim,), (lee,)]


def test_the_usual_port_depends_on_the_kind_of_tls():
    base = {"host": "smtp.example.com", "sender": "rankwatch@example.com", "to": TO}
    for tls, port in (("starttls", 587), ("implicit", 465), ("none", 25)):
        assert EmailOptions.model_validate({**base, "tls": tls}).port_in_use == port
