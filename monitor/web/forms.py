"""Forms that change something: what they do, their tokens, and that they come from a page of ours.

HTTPException for what is refused.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from monitor.errors import ConfigError
from monitor.options import parse_duration
from monitor.pipeline.alert_actions import Signature, change_firing, make_silence
from monitor.ports import AlertStore
from monitor.web.pages.site import Site

_MOST_BYTES = 16_384


_LONGEST_COMMENT = 500
OUTCOMES = {
    "acknowledge": "Acknowledged: it is not sent again until it ends.",
    "resolve": "Resolved. If the next run is in breach it fires again, as a new alert.",
    "silence": "Silenced. What still fires when the silence ends is sent then.",
    "expire": "The silence has ended. What still fires is sent.",
    "nothing": "Nothing was changed: it has ended, or was done before.",
}
"""What came of a form, by the word in the address of the page that follows it."""


@dataclass(frozen=True, slots=True)
class FormTokens:
    """Tokens of forms, each for one user and from one time on, under a key of this process alone.

    Browsers send a password along with whatever another page makes them send, but not a token that the page does not have.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def issue(self, user: str, issued: str) -> str:
        """The token of a form that this user is shown at this ISO 8601 time."""
        signature = hashlib.blake2b(f"{issued}~{user}".encode(), key=self.key, digest_size=32).hexdigest()
        return f"{issued}~{signature}"

    def verify(self, token: str, user: str) -> datetime:
        """When the user was shown the form with this token."""
        issued = token.partition("~")[0]
        if not hmac.compare_digest(token.encode(), self.issue(user, issued).encode()):
            raise HTTPException(
                403, "this form is not of this user, of this daemon and since its last start: load its page anew"
            )
        return datetime.fromisoformat(issued)


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form."""
    headers, body = request.headers, b""
    # Over HTTPS browsers say what kind of site a form came from, over HTTP from which; other clients need not say either.
    kind, origin = headers.get("sec-fetch-site"), headers.get("origin")
    is_from_here = origin is None or origin.partition("://")[2] == headers.get("host")
    if not (is_from_here if kind is None else kind == "same-origin"):
        raise HTTPException(
            403, "this form comes from another site, or a proxy without HTTPS changed the header Host: use HTTPS"
        )
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, f"a form has at most {_MOST_BYTES:,} bytes: write less")
    return dict(parse_qsl(body.decode("utf-8", "replace")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form as its user sent it; ``key``: of the incident on whose page it stood, empty on the page of all."""

    user: str
    issued: datetime
    key: str
    fields: Mapping[str, str]


def act(site: Site, form: Form) -> str:
    """Do what the form asks for; its outcome, one of `OUTCOMES`. ConfigError where that cannot be done."""
    what, alerts, now = form.fields.get("do", ""), site.store.alerts, site.clock.now()
    comment = " ".join(form.fields.get("comment", "").split())[:_LONGEST_COMMENT]
    signed, number = Signature(author=form.user, comment=comment, at=now), form.fields.get("silence", "")
    if what in ("acknowledge", "resolve"):
        of_it = lambda start: form.key in (start.incident, start.dedup_key)  # noqa: E731
        is_done = bool(change_firing(alerts, of_it, signed, ends=what == "resolve"))
    elif what == "silence":
        is_done = _silence(alerts, form, signed)
    elif what == "expire" and re.fullmatch("[0-9]{1,18}", number):
        is_done = alerts.expire_silence(int(number), now=now)
    else:
        msg = f"there is no action {what[:40]!r} for {number[:40]!r}"
        raise ConfigError(msg)
    return what if is_done else "nothing"


def _silence(alerts: AlertStore, form: Form, signed: Signature) -> bool:
    try:
        ends_at = signed.at + parse_duration(form.fields.get("for", ""))
    except (ValueError, OverflowError) as error:
        msg = f"for how long: {error}"
        raise ConfigError(msg) from None
    matchers = [line for line in form.fields.get("matchers", "").splitlines() if line.strip()]
    wanted = make_silence(matchers, signed, starts_at=signed.at, ends_at=ends_at)
    # A form that is sent again finds what it made: forms are done one after the other, and each by the process that made it.
    for each in alerts.silences(ending_after=form.issued):
        is_same = (each.matchers, each.author, each.comment) == (wanted.matchers, wanted.author, wanted.comment)
        if is_same and each.created_at >= form.issued:
            return False
    alerts.add_silence(wanted)
    return True
