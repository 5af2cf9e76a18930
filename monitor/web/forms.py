"""Forms that change something: their tokens, and that they come from a page of ours. HTTPException for what is refused."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

_MOST_BYTES = 16_384


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
