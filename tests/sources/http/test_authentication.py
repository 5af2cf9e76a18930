"""Authentication of a source over HTTP: hashes, AWS's signature, certificates, tokens of OAuth 2."""

import hashlib
import hmac
import ssl
from base64 import b64decode

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from clocks import set_clock
from factories import SLOT
from monitor import USER_AGENT
from monitor.model.errors import SourceError
from monitor.sources.http import authentication
from servers.answering import answering
from servers.lists import as_lists, pull_of, request, source_of
from servers.recommender import running_recommender
from servers.webhook import Request

POST = {"method": "POST", "body": {"user": "{user}"}}


def asked_with(path="/{user}", **options):
    """The address of a server, and the first request to it."""
    with answering(lambda *_: (200, ["a"])) as server:
        pull = pull_of("ann", http={"url": server.url + path, **options})
        assert as_lists(pull) == {"ann": ["a"]}
    return server.url, server.requests[0]


def test_a_request_is_signed_by_a_keyed_hash_of_its_time_and_body(tmp_path, monkeypatch):
    set_clock(monkeypatch, SLOT)
    (tmp_path / "key").write_text("s3cret\n")
    keys = {"secret_file": f"{tmp_path}/key", "signs": "{method} {timestamp}.{body}"}
    _, asked = asked_with(auth={"hmac": keys}, **POST)

    stamp = str(int(SLOT.timestamp()))
    signed = f"POST {stamp}.".encode() + asked.body
    assert asked.headers["x-timestamp"] == stamp
    assert asked.headers["x-signature"] == hmac.new(b"s3cret", signed, "sha256").hexdigest()


def test_recombees_signature_is_last_in_the_query_and_covers_everything_before_it():
    options = {"profile": "recombee", "with": {"database": "shop"}, "items": "@"}
    _, asked = asked_with("", auth={"hmac": {"secret": "private"}}, **options)

    before, _, signature = asked.path.partition("&hmac_sign=")
    assert before.startswith("/shop/recomms/users/ann/items/?hmac_timestamp=")
    assert signature == hmac.new(b"private", before.encode(), hashlib.sha1).hexdigest()


def test_awss_signature_is_botocores_byte_for_byte():
    for path, options in [("/{user}?n={k}&of=a%2Cb%20c", {}), ("/lists", POST)]:
        keys = {"access_key": "AKIDEXAMPLE", "secret_key": "secret", "service": "personalize"}
        url, asked = asked_with(path, auth={"aws": keys | {"region": "eu-west-1"}}, **options)

        again = AWSRequest(asked.method, url + asked.path, {}, asked.body)
        signer = SigV4Auth(Credentials("AKIDEXAMPLE", "secret"), "personalize", "eu-west-1")
        again.context["timestamp"] = asked.headers["x-amz-date"]
        again.headers["X-Amz-Date"] = asked.headers["x-amz-date"]
        signature = signer.signature(
            signer.string_to_sign(again, signer.canonical_request(again)), again
        )
        assert asked.headers["authorization"].endswith(
            f"SignedHeaders=host;x-amz-date, Signature={signature}"
        )


def test_where_no_keys_are_given_awss_own_are_found_or_the_run_fails(monkeypatch, tmp_path):
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, f"{tmp_path}/none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    auth = {"aws": {"region": "eu-west-1"}}
    with pytest.raises(
        SourceError, match=r"no AWS credentials were found .*: give access_key and secret_key"
    ):
        asked_with(auth=auth)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDFOUND")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    assert "Credential=AKIDFOUND/" in asked_with(auth=auth)[1].headers["authorization"]


@pytest.mark.integration
def test_certificates_are_verified_and_used_only_by_the_sources_that_name_them(
    authority, server_pair, client_pair
):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.cert))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(server_pair.cert, server_pair.key)
    own = {"cert_file": str(client_pair.cert), "key_file": str(client_pair.key)}
    with running_recommender(tls) as recommender:
        strange = {"url": recommender.url, "retries": 0}
        trusting = strange | {"ca_file": str(authority.cert)}
        for _ in range(2):  # none uses the connection that another one leaves
            assert as_lists(pull_of("ann", k=1, http=trusting | own)) == {"ann": ["0"]}
            for options in (trusting, strange | own):
                assert pull_of("ann", http=options).failures == {"ann": "unreachable"}


USERS = tuple(f"u{number}" for number in range(50))


class TokenServer:
    """Issues the tokens t1, t2, ..., and answers requests with the newest one."""

    def __init__(self, status=200, **answer):
        self.seen, self.tokens, self.good = list[Request](), 0, ""
        self._status, self._answer = status, answer

    def __call__(self, path, _):
        if path.startswith("/recs"):
            is_in = self.seen[-1].headers["authorization"] == self.good and "nobody" not in path
            return (200, ["a"]) if is_in else (401, {})
        self.tokens += 1
        self.good = f"Bearer t{self.tokens}"
        return self._status, {"access_token": f"t{self.tokens}", **self._answer}

    def pulls(self, *pulls, forget=False):
        """Pulls one after the other, with one request at a time.

        With ``forget``, all tokens are invalid before the second pull.
        """
        made = []
        client = {"client_id": "me", "client_secret": "canary:%", "scope": "recs.read"}
        with answering(self) as server:
            self.seen, url = server.requests, server.url
            auth = {"oauth2": client | {"token_url": f"{url}/token"}}
            options = {"url": f"{url}/recs/{{user}}", "auth": auth, "concurrency": 1, "retries": 0}
            source = source_of(http=options)
            for users in pulls:
                made.append(source.pull(request(*users)))
                if forget:
                    self.good = ""
        assert "canary" not in "".join(f"{pull.notes}" for pull in made)
        return made


def test_a_token_is_fetched_once_for_all_users_and_pulls():
    server = TokenServer(expires_in=3600)
    first, second = server.pulls(USERS, USERS)

    asked = server.seen[0]
    assert (asked.path, server.tokens) == ("/token", 1)
    assert {*asked.body.split(b"&")} == {b"grant_type=client_credentials", b"scope=recs.read"}
    assert {each.headers["user-agent"] for each in server.seen} == {USER_AGENT}
    assert b64decode(asked.headers["authorization"].removeprefix("Basic ")) == b"me:canary%3A%25"
    assert len(as_lists(first)) == len(as_lists(second)) == len(USERS)


def test_a_token_that_has_ended_is_fetched_again():
    server = TokenServer(expires_in=0)
    assert len(as_lists(server.pulls(USERS)[0])) == len(USERS)
    assert server.tokens == len(USERS)


def test_a_token_that_is_refused_is_fetched_again_once_and_not_by_each_request():
    server = TokenServer()
    first, second = server.pulls(USERS, USERS, forget=True)
    assert len(as_lists(first)) == len(as_lists(second)) == len(USERS)
    assert server.tokens == 2

    server = TokenServer()
    (refused,) = server.pulls(("nobody", *USERS))
    assert refused.failures == {"nobody": "http_error"}
    assert server.tokens == 2


@pytest.mark.parametrize("status, token", [(403, "t"), (200, "line\r\nbreak")])
def test_without_a_token_the_reason_is_reported_and_its_server_gets_one_request(
    status, token, monkeypatch
):
    monkeypatch.setattr(authentication, "_FAILED_S", 3600.0)
    server = TokenServer(status, access_token=token)
    (pull,) = server.pulls(USERS)
    assert set(pull.failures.values()) == {"unreachable"}
    note = f"was not asked: token_url answered {status} without a token"
    assert pull.notes["unreachable"].endswith(note)
    assert len(server.seen) == 1
