"""Receivers and HTTP sources reach what is behind a proxy: the option `proxy` names it, the environment does not."""

import ssl

import pytest
from pydantic import SecretStr, ValidationError

from messages import START, send
from monitor.model.errors import DeliveryError, SourceError
from monitor.receivers.http_client import HttpClient
from monitor.receivers.webhook import WebhookOptions
from monitor.sources.http import HttpUsersOptions
from monitor.sources.http.users import HttpUsers
from servers import free_port
from servers.answering import answering
from servers.lists import SLOT, as_lists, pull_of
from servers.recommender import recommender, running_recommender
from servers.smtp import certificate
from servers.web_proxy import web_proxy
from servers.webhook import collector

__all__ = ["certificate", "collector", "recommender"]
LOGIN = "me:canary"


@pytest.fixture
def proxy():
    with web_proxy(LOGIN) as proxy:
        yield proxy


def post(url, proxy, ca_file=None):
    client = HttpClient(url, who="hook", timeout_s=5, ca_file=ca_file, proxy=SecretStr(proxy))
    return client.post(b"{}", {"X-One": "1"})


def failure(url, proxy):
    with pytest.raises(DeliveryError) as caught:
        post(url, proxy)
    assert "canary" not in str(caught.value)
    assert not caught.value.may_be_known
    return str(caught.value)


def note_of(url, proxy):
    (note,) = pull_of("u1", http={"url": url, "proxy": proxy, "retries": 0}).notes.values()
    assert "canary" not in note
    return note


def test_a_message_goes_through_the_proxy_whose_credentials_the_receiver_does_not_get(
    proxy, collector
):
    assert post(f"{collector.url}/hook?a=1", proxy.url).status == 200

    assert proxy.asked == [f"POST {collector.url}/hook?a=1 HTTP/1.1"]
    (sent,) = collector.requests
    assert (sent.path, sent.body, sent.headers["X-One"]) == ("/hook?a=1", b"{}", "1")
    assert not any(name.lower().startswith("proxy") for name in sent.headers)


@pytest.mark.integration
def test_https_goes_through_the_proxy_by_connect(proxy, certificate):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with running_recommender(tls) as recommender:
        found = {"url": recommender.url, "proxy": proxy.url, "ca_file": str(certificate)}
        answer = post(recommender.url.format(user="u1", k=1), proxy.url, str(certificate))

        assert answer.status in {200, 404, 405}
        assert as_lists(pull_of("u1", k=1, http=found)) == {"u1": ["0"]}
        connects = {asked.rpartition(" ")[0] for asked in proxy.asked}
        assert connects == {f"CONNECT 127.0.0.1:{recommender.port}"}


def test_a_proxy_that_refuses_or_is_away_is_named_with_what_to_do(proxy, collector):
    secure, bare = collector.url.replace("http:", "https:"), proxy.url.replace(LOGIN, "me:canary2")
    away = f"http://{LOGIN}@127.0.0.1:{free_port()}"
    named = proxy.url.replace(f"{LOGIN}@", "")

    assert post(collector.url, bare).status == 407
    assert f"the proxy {named} answered 407 to CONNECT: check the credentials in proxy" in failure(
        secure, bare
    )
    assert f"the proxy {away.replace(f'{LOGIN}@', '')} refused the connection" in failure(
        collector.url, away
    )
    assert "answered 502 to CONNECT: check that the proxy may connect to this receiver" in failure(
        f"https://127.0.0.1:{free_port()}", proxy.url
    )


def test_lists_and_users_are_asked_for_through_the_proxy(proxy, recommender):
    lists = pull_of("u1", k=1, http={"url": recommender.url, "proxy": proxy.url})

    assert as_lists(lists) == {"u1": ["0"]}
    assert proxy.asked == [f"GET http://127.0.0.1:{recommender.port}/recs/u1?n=1 HTTP/1.1"]
    assert not any(name.lower().startswith("proxy") for name in recommender.asked[0].headers)
    with answering(lambda *_: (200, ["u1", "u2"])) as server:
        options = HttpUsersOptions.model_validate(
            {"url": f"{server.url}/users", "proxy": proxy.url}
        )
        assert list(HttpUsers(options).users(SLOT, ()).users) == ["u1", "u2"]
        assert proxy.asked[1:] == [f"GET {server.url}/users HTTP/1.1"]


def test_a_source_says_what_the_proxy_did(proxy, recommender):
    bare, away = proxy.url.replace(LOGIN, "me:canary2"), f"http://{LOGIN}@127.0.0.1:{free_port()}"
    secure = recommender.url.replace("http:", "https:")

    assert "answered 407 Proxy Authentication Required" in note_of(recommender.url, bare)
    assert "answered 407 to CONNECT: check the credentials in proxy" in note_of(secure, bare)
    assert (
        f"was not reached: the proxy {away.replace(f'{LOGIN}@', '')} refused or lost the connection"
        in note_of(recommender.url, away)
    )


def test_a_token_is_fetched_through_the_proxy(proxy, recommender):
    with answering(lambda *_: (200, {"access_token": "t"})) as server:
        client = {"token_url": f"{server.url}/token", "client_id": "me", "client_secret": "s"}
        found = {"url": recommender.url, "proxy": proxy.url, "auth": {"oauth2": client}}
        assert as_lists(pull_of("u1", k=1, http=found)) == {"u1": ["0"]}

        assert proxy.asked[0] == f"POST {server.url}/token HTTP/1.1"


def test_proxies_of_the_environment_are_not_used(recommender, collector, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name)

    send(START, webhook={"url": collector.url})
    assert as_lists(recommender.pull("u1", k=1)) == {"u1": ["0"]}


def test_what_is_no_http_proxy_is_refused_without_repeating_it():
    for text in [
        "canary:3128",
        "socks5://canary:1080",
        "https://canary:3128",
        "http://canary/path",
        "http://",
    ]:
        with pytest.raises(
            ValidationError, match="must be an HTTP proxy: write http://host:port"
        ) as caught:
            WebhookOptions.model_validate({"url": "http://host/", "proxy": text})
        assert "canary" not in str(caught.value)


def test_a_link_local_address_is_not_asked_of_a_proxy(proxy):
    url = "http://169.254.169.254/latest"

    assert "link-local" in failure(url, proxy.url)
    with pytest.raises(
        SourceError, match=r"169\.254\.169\.254 was not asked: .*see allow_link_local"
    ):
        pull_of("u1", http={"url": f"{url}/{{user}}", "proxy": proxy.url})
    assert not proxy.asked
