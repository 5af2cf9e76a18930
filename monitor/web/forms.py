"""Forms that change something: their tokens, and that they come from a page of this process."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import parse_qsl

from starlette.requests import Request

_MOST_BYTES = 16_384
_MOST_FIELDS = 20
_VALID_FOR = timedelta(hours=12)
_KIND = "application/x-www-form-urlencoded"


class FormRefusedError(Exception):
    """Nothing of a form was done; the text says why and what to do, ``status`` is that of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class FormTokens:
    """Tokens that a form carries: of one user and one time, under a key of this process alone.

    Browsers send passwords and certificates along with whatever another page makes them send; a token they do not have.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def issue(self, user: str, now: datetime) -> str:
        """The token of a form that this user is shown now."""
        return f"{now.isoformat()}~{self._sign(now.isoformat(), user)}"

    def verify(self, token: str, user: str, now: datetime) -> datetime:
        """When the token was issued to this user; FormRefusedError where it was not, or long ago."""
        issued, _, signature = token.partition("~")
        if not hmac.compare_digest(signature.encode(), self._sign(issued, user).encode()):
            raise FormRefusedError(
                403, "this form is not of this daemon, of this user and since its last start: load the page anew"
            )
        if now - (at := datetime.fromisoformat(issued)) > _VALID_FOR:
            raise FormRefusedError(403, "this form is older than 12 hours: load the page anew")
        return at

    def _sign(self, issued: str, user: str) -> str:
        return hashlib.blake2b(f"{issued}~{user}".encode(), key=self.key, digest_size=32).hexdigest()


async def read_form(request: Request, *, host: str) -> Mapping[str, str]:
    """The fields of a form that a page of ours sent; FormRefusedError for what comes from elsewhere or is none.

    ``host``: under which browsers know our pages, where a proxy hides it.
    """
    if not _is_from_here(request.headers, host):
        raise FormRefusedError(
            403, "this form comes from another site; if it does not, set external_url to the address that you use"
        )
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _KIND:
        raise FormRefusedError(415, f"a form is sent as {_KIND}")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise FormRefusedError(413, f"a form has at most {_MOST_BYTES} bytes: write a shorter comment")
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise FormRefusedError(400, f"a form has at most {_MOST_FIELDS} fields") from None


def _is_from_here(headers: Mapping[str, str], host: str) -> bool:
    # Browsers say over HTTPS what kind of site sent the form, and over HTTP which one; other clients need not say either.
    if (kind := headers.get("sec-fetch-site")) is not None:
        return kind == "same-origin"
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] in {headers.get("host"), host} - {""}
