"""What Healthchecks would make of requests to its pinging API.

It refuses what that would not take.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

CHECK = "/ping/5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"
_LONGEST_BODY = 100_000


@dataclass(frozen=True)
class Signal:
    kind: str
    rid: UUID
    body: str


def signals_of(requests):
    return [_signal(request) for request in requests]


def _signal(request):
    parts = urlsplit(request.path)
    found = re.fullmatch(re.escape(CHECK) + "(?:/(start|fail|log))?", parts.path)
    assert found is not None, f"404: {parts.path}"
    assert request.method in {"GET", "HEAD", "POST"}
    assert len(request.body) <= _LONGEST_BODY
    (rid,) = parse_qs(parts.query)["rid"]
    assert str(UUID(rid)) == rid, "400: rid must be in the canonical form"
    return Signal(found[1] or "success", UUID(rid), request.body.decode())
