"""Requests over HTTP: addresses, bodies, headers, certificates, selection of items, and signs of caches."""

import socket
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest
from multidict import CIMultiDict

from monitor.boundary import link_local
from monitor.sources.http.traces import TraceCollector
from servers.lists import as_lists, pull_of, request, source_of
from tables import parsed


def test_placeholders_are_filled_in_and_percent_encoded(recommender):
    url = f"http://127.0.0.1:{recommender.port}/recs/{{user}}/{{slot:%Y-%m-%d}}?n={{k}}&at={{slot}}"

    pull_of("a/b?c&é", k=7, http={"url": url})

    assert (
        recommender.asked[0].target
        == "/recs/a%2Fb%3Fc%26%C3%A9/2024-01-08?n=7&at=2024-01-08T12%3A30%3A00Z"
    )


def test_a_key_that_changes_the_path_is_never_requested(recommender):
    assert recommender.pull(".", "..").failures == dict.fromkeys((".", ".."), "malformed")
    assert not recommender.asked


def test_headers_and_token_are_sent(recommender, tmp_path):
    (tmp_path / "key").write_text("k-from-file\n")
    headers = {"X-Env": "prod", "X-Key_file": f"{tmp_path}/key"}
    options = {"token": "t0ken", "headers": headers}

    recommender.pull("u", **options)

    expected = {"authorization": "Bearer t0ken", "x-env": "prod", "x-key": "k-from-file"}
    expected["user-agent"] = "rankwatch/" + version("rankwatch")
    assert {name: recommender.asked[0].headers[name] for name in expected} == expected


@pytest.mark.parametrize("host", ["169.254.169.254", "metadata.google.internal"])
def test_metadata_services_of_clouds_get_no_requests_under_any_name(host, monkeypatch):
    resolved = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved)
    token = {"token_url": f"http://{host}/", "client_id": "me", "client_secret": "s"}
    for options in (
        {"url": f"http://{host}/{{user}}"},
        {"url": "http://127.0.0.1:9/{user}", "auth": {"oauth2": token}},
    ):
        pull = pull_of("u", http=options)
        told = pull.notes["unreachable"].removesuffix(", see allow_link_local")
        assert "was not asked: " in told
        assert told.rstrip(")").endswith("is link-local or a cloud's metadata service")


def test_link_local_addresses_are_requested_if_the_source_allows_them(recommender, monkeypatch):
    monkeypatch.setattr(link_local, "_METADATA", {"127.0.0.1"})
    refused, allowed = (recommender.pull("u", allow_link_local=each) for each in (False, True))
    assert (len(refused.rankings), len(allowed.rankings), len(recommender.asked)) == (0, 1, 1)


SHAPES = parsed("""
    [{"other": [1], "recs": {}}, "an object of other, recs"]
    [{"a": 1, "b": 2, "c\\n": 3, "dddddddddddddddddddddddddddddddd": 4, "e": 5, "f": 6}, "an object of a, b, ..., ..., e, ..."]
    [{}, "an empty object"]
    [[{"id": 1}, {"id": 2}], "an array of 2, the first an object of id"]
    ["secret", "a single value"]
""")


@pytest.mark.parametrize("answer, shape", SHAPES)
def test_an_answer_without_items_at_the_path_is_reported_with_its_structure(
    answer, shape, recommender
):
    recommender.lists |= {"bad": answer, "good": {"items": [1]}}

    pull = recommender.pull("bad", "good", items="items")

    said = f"127.0.0.1:{recommender.port} has nothing at the path that `items` gives (items), in {shape}"
    assert pull.notes == {"malformed": said}


def test_the_note_doubts_the_expression_if_it_finds_nothing_in_all_answers(recommender):
    recommender.lists |= {user: {"recs": [{"id": 1, "score": 0.5}]} for user in "abc"}
    items = "recs[*].item"

    told = recommender.pull("a", "b", "c", items=items).notes["empty"]

    found = "gave every user an empty list at the path that `items` gives (recs[*].item), in an object of recs: is items right?"
    assert told == f"127.0.0.1:{recommender.port} {found}"
    recommender.lists["a"] = {"recs": [{"item": 1}]}
    assert not recommender.pull("a", "b", "c", items=items).notes


def test_the_note_doubts_the_address_if_no_user_is_found(recommender):
    recommender.otherwise = "missing"
    note = f"127.0.0.1:{recommender.port} answered 404 Not Found"

    nobody = recommender.pull("a", "b").notes
    recommender.behaviour["a"] = "ok"
    somebody = recommender.pull("a", "b").notes

    assert nobody == {"missing": f"{note}, for all users: is url right?"}
    assert somebody == {"missing": note}


def test_an_answer_about_another_user_is_a_wrong_user(recommender):
    recommender.behaviour.update({"a": "named", "b": "wrong_user", "7": "named"})
    pull = recommender.pull("a", "b", "7", k=1, items="items", user="user")

    assert as_lists(pull) == {"a": ["0"], "7": ["0"]}
    assert pull.failures == {"b": "wrong_user"}


def test_a_host_that_is_no_name_was_not_asked():
    for host in [f"{'a' * 64}.example", "a..example", f"{'a.' * 130}example"]:
        pull = pull_of("ann", http={"url": f"http://{host}/{{user}}", "retries": 0})

        assert pull.failures == {"ann": "unreachable"}
        assert "not HTTP" not in pull.notes["unreachable"]


def test_no_secret_is_noted(recommender):
    url = f"http://canary:canary@127.0.0.1:{recommender.port}/recs/{{user}}/canary?token=canary"
    recommender.behaviour.update({"a": "redirect", "b": "cut", "c": "html", "d": "server_error"})

    pull = pull_of(*"abcd", http={"url": url, "headers": {"X-Key": "canary"}, "retries": 0})

    assert len(pull.failures) == 4
    assert "canary" not in f"{pull.notes}"


def traced(*answers):
    """The ages of these answers, which are -1 without a cache, their ids, and the sign of a cache."""
    found = TraceCollector()
    for number, headers in enumerate(answers):
        found.add([str(number)], CIMultiDict(headers))
    told = found.of(pd.RangeIndex(len(answers)).astype("str"))
    return np.nan_to_num(told.age_s, nan=-1).tolist(), told.ids.tolist(), told.cache_header


SIGNS = """
    x-varnish: 32770 3                               -> X-Varnish: 32770 3
    X-Cache-Status: STALE                            -> X-Cache-Status: STALE
    X-Cache: Hit from cloudfront                     -> X-Cache: Hit
    X-Cache: MISS, HIT                               -> X-Cache: HIT
    X-Cache: TCP_MEM_HIT from a23-1 (AkamaiGHost/9)  -> X-Cache: HIT
    Cache-Status: proxy.example;hit;detail=match     -> Cache-Status: hit
    Cache-Status: Origin; fwd=uri-miss; collapsed    -> Cache-Status: collapsed
    CF-Cache-Status: UPDATING                        -> CF-Cache-Status: UPDATING
    age: 17                                          -> Age: 17
    X-Cache: Miss from cloudfront                    ->
    X-Cache: RefreshHit from cloudfront              ->
    X-Cache: TCP_REFRESH_HIT                         ->
    X-Cache: MISS                                    ->
    CF-Cache-Status: DYNAMIC                         ->
    CF-Cache-Status: EXPIRED                         ->
    CF-Cache-Status: REVALIDATED                     ->
    CF-Cache-Status: BYPASS                          ->
    Cache-Status: Edge; fwd=stale; stored            ->
    Cache-Status: Edge; hit=?0; fwd=miss             ->
    Cache-Status: whit; fwd=miss                     ->
    Age: 0                                           ->
    Age: 000                                         ->
    Age: -5                                          ->
    Age: old                                         ->
    Age: ²                                           ->
    X-Varnish: 32770                                 ->
"""
"""A header as nginx, CloudFront, Fastly (the shield and the edge), Akamai, Squid (RFC 9211), Cloudflare and Varnish send it."""


def test_an_answer_from_a_cache_is_recognized_by_its_headers():
    for line in SIGNS.strip().splitlines():
        header, sign = map(str.strip, line.split("->"))
        name, value = header.split(": ")
        assert traced({name: value})[::2] == (
            [17 if sign == "Age: 17" else 0 if sign else -1],
            sign,
        )


def test_answers_with_one_id_share_a_number():
    _, (one, same, other, none), _ = traced(
        {"X-Request-Id": "a"}, {"x-request-id": "a"}, {"X-Request-Id": "b"}, {"X-Id": "a"}
    )
    assert one == same != other
    assert np.isnan(none)


def test_a_pull_stores_when_each_list_came_and_keeps_the_configured_cache_control(recommender):
    recommender.behaviour["b"] = "missing"
    source = source_of(http={"url": recommender.url, "headers": {"cache-control": "max-age=0"}})
    pull = source.pull(replace(request("a", "b", "c"), is_uncached=True))
    assert pull.rankings.traces is not None
    assert np.isfinite(pull.rankings.traces.came_s).tolist() == [True, True]
    assert {asked.headers["cache-control"] for asked in recommender.asked} == {"max-age=0"}
