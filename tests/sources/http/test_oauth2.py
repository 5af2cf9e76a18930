"""Tokens of OAuth 2 that a source over HTTP fetches: when, how often, and what is told where none is to be had."""

from base64 import b64decode
from typing import Any
from urllib.parse import parse_qs

import pytest

from monitor import USER_AGENT
from monitor.model.rankings import CoverageReason, Pull
from monitor.sources.http import authentication
from servers.answering import answering
from servers.lists import as_lists, request, source_of
from servers.recommender import Asked

USERS = tuple(f"u{number}" for number in range(50))


class TokenServer:
    """Hands out tokens t1, t2, ..., and answers those who come with one that is good."""

    def __init__(self, answer: dict[str, Any] | None = None, status: int = 200) -> None:
        self.seen, self.tokens, self.good = list[Asked](), 0, set[str]()
        self._more, self._status = answer or {}, status

    def __call__(self, path: str, _: object) -> tuple[int, object]:
        if path.startswith("/recs"):
            is_in = self.seen[-1].headers["authorization"] in self.good if path != "/recs/nobody" else False
            return (200, ["a"]) if is_in else (401, {})
        self.tokens += 1
        self.good = {f"Bearer t{self.tokens}"}
        return self._status, {"access_token": f"t{self.tokens}", "token_type": "Bearer"} | self._more

    def pulls(self, *pulls: tuple[str, ...], forget: bool = False) -> list[Pull]:
        """One after the other, one request at a time; ``forget``: before the second its tokens are good no more."""
        made = []
        with answering(self, self.seen) as url:
            client = {"token_url": f"{url}/token", "client_id": "me", "client_secret": "canary:%", "scope": "recs.read"}
            source = source_of(http={"url": f"{url}/recs/{{user}}", "auth": {"oauth2": client}, "concurrency": 1, "retries": 0})
            for users in pulls:
                made.append(source.pull(request(*users)))
                self.good = set() if forget else self.good
        assert "canary" not in "".join(f"{pull.notes}" for pull in made)
        return made


def test_a_token_is_fetched_once_for_all_users_and_pulls() -> None:
    server = TokenServer({"expires_in": 3600})
    first, second = server.pulls(USERS, USERS)

    asked = server.seen[0]
    assert (asked.target, server.tokens) == ("/token", 1)
    assert parse_qs(asked.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["recs.read"]}
    assert {each.headers["user-agent"] for each in server.seen} == {USER_AGENT}
    assert b64decode(asked.headers["authorization"].removeprefix("Basic ")) == b"me:canary%3A%25"
    assert len(as_lists(first)) == len(as_lists(second)) == len(USERS)


def test_a_token_that_has_ended_is_fetched_again() -> None:
    server = TokenServer({"expires_in": 0})
    assert len(as_lists(server.pulls(USERS)[0])) == len(USERS)
    assert server.tokens == len(USERS)


def test_a_token_that_is_refused_is_fetched_again_once_and_not_by_each_request() -> None:
    server = TokenServer()
    first, second = server.pulls(USERS, USERS, forget=True)
    assert (len(as_lists(first)), len(as_lists(second)), server.tokens) == (len(USERS), len(USERS), 2)

    server = TokenServer()
    (refused,) = server.pulls(("nobody", *USERS))
    assert refused.failures == {"nobody": CoverageReason.HTTP_ERROR}
    assert server.tokens == 2


@pytest.mark.parametrize(
    ("server", "note"),
    [
        (TokenServer(status=403), "was not asked: token_url answered 403 without a token"),
        (TokenServer({"access_token": None}), "was not asked: token_url answered 200 without a token"),
        (TokenServer({"access_token": "line\r\nbreak"}), "was not asked: token_url answered 200 without a token"),
    ],
)
def test_where_no_token_is_to_be_had_the_reason_is_told_and_its_server_is_spared(
    server: TokenServer, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "_FAILED_S", 3600.0)
    (pull,) = server.pulls(USERS)
    assert set(pull.failures.values()) == {CoverageReason.UNREACHABLE}
    assert pull.notes[CoverageReason.UNREACHABLE].endswith(note)
    assert (server.tokens, len(server.seen)) == (1, 1)
