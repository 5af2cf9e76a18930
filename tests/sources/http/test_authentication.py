"""How a source over HTTP says who asks: hashes, AWS's signature, certificates."""

import hashlib
import hmac
import ssl
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from clocks import set_clock
from factories import SLOT
from monitor.errors import SourceError
from monitor.model.rankings import CoverageReason
from servers.answering import answering
from servers.certificates import Authority, Pair
from servers.lists import as_lists, pull_of
from servers.recommender import Asked, running_recommender

POST: dict[str, Any] = {"method": "POST", "body": {"user": "{user}"}}


def asked_with(path: str = "/{user}", **options: Any) -> tuple[str, Asked]:
    """The address of a server, and what it was asked."""
    seen = list[Asked]()
    with answering(lambda _, __: (200, ["a"]), seen) as url:
        assert as_lists(pull_of("ann", http={"url": url + path, **options})) == {"ann": ["a"]}
    return url, seen[0]


def test_a_request_is_signed_by_a_keyed_hash_of_its_time_and_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, SLOT)
    (tmp_path / "key").write_text("s3cret\n")
    _, asked = asked_with(auth={"hmac": {"secret_file": str(tmp_path / "key"), "signs": "{method} {timestamp}.{body}"}}, **POST)

    stamp = asked.headers["x-timestamp"]
    assert int(stamp) == SLOT.timestamp()
    assert asked.headers["x-signature"] == hmac.new(b"s3cret", b"POST %s." % stamp.encode() + asked.body, "sha256").hexdigest()


def test_recombees_signature_stands_last_in_the_query_and_covers_all_before_it() -> None:
    options: dict[str, Any] = {"profile": "recombee", "with": {"database": "shop"}, "items": "@"}
    _, asked = asked_with("", auth={"hmac": {"secret": "private"}}, **options)

    before, _, signature = asked.target.partition("&hmac_sign=")
    assert before.startswith("/shop/recomms/users/ann/items/?hmac_timestamp=")
    assert signature == hmac.new(b"private", before.encode(), hashlib.sha1).hexdigest()


@pytest.mark.parametrize(("path", "options"), [("/{user}?n={k}&of=a%2Cb%20c", {}), ("/lists", POST)])
def test_awss_signature_is_botocores_byte_for_byte(path: str, options: dict[str, Any]) -> None:
    keys = {"access_key": "AKIDEXAMPLE", "secret_key": "secret", "region": "eu-west-1", "service": "personalize"}
    url, asked = asked_with(path, auth={"aws": keys}, **options)

    again = AWSRequest(asked.method, url + asked.target, {}, asked.body)
    signer = SigV4Auth(Credentials("AKIDEXAMPLE", "secret"), "personalize", "eu-west-1")
    again.context["timestamp"] = asked.headers["x-amz-date"]
    again.headers["X-Amz-Date"] = asked.headers["x-amz-date"]
    signature = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
    assert asked.headers["authorization"].endswith(f"SignedHeaders=host;x-amz-date, Signature={signature}")


def test_where_no_keys_are_given_awss_own_are_found_or_the_run_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    auth = {"aws": {"region": "eu-west-1"}}
    with pytest.raises(SourceError, match=r"no AWS credentials were found .*: give access_key and secret_key"):
        asked_with(auth=auth)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDFOUND")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    assert "Credential=AKIDFOUND/" in asked_with(auth=auth)[1].headers["authorization"]


@pytest.mark.integration
def test_a_certificate_is_shown_to_a_server_that_wants_one(authority: Authority, server_pair: Pair, client_pair: Pair) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.cert))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(server_pair.cert, server_pair.key)
    own = {"cert_file": str(client_pair.cert), "key_file": str(client_pair.key)}
    with running_recommender(tls) as recommender:
        trusting = {"url": recommender.url, "ca_file": str(authority.cert), "retries": 0}
        assert as_lists(pull_of("ann", k=1, http=trusting | own)) == {"ann": ["0"]}
        assert pull_of("ann", http=trusting).failures == {"ann": CoverageReason.UNREACHABLE}
