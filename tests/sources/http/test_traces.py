"""What answers tell of caches, in the words of those that send them, and of their ids."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from multidict import CIMultiDict

from monitor.sources.http.traces import TraceCollector
from servers.lists import request, source_of
from servers.recommender import Recommender


def traced(*answers: dict[str, str]) -> tuple[list[float], list[float], str]:
    """Ages, -1 for no cache, and ids of these answers; a sign of a cache."""
    found = TraceCollector()
    for number, headers in enumerate(answers):
        found.add([str(number)], CIMultiDict(headers))
    told = found.of(pd.Index([str(number) for number in range(len(answers))], dtype="str"))
    return np.nan_to_num(told.age_s, nan=-1).tolist(), told.ids.tolist(), told.sign


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


@pytest.mark.parametrize("line", SIGNS.strip().splitlines())
def test_an_answer_from_a_cache_is_known_by_what_the_cache_says(line: str) -> None:
    header, sign = map(str.strip, line.split("->"))
    name, value = header.split(": ")
    assert traced({name: value})[::2] == ([17 if sign == "Age: 17" else 0 if sign else -1], sign)


def test_answers_with_one_id_share_a_number() -> None:
    _, (one, same, other, none), _ = traced({"X-Request-Id": "a"}, {"x-request-id": "a"}, {"X-Request-Id": "b"}, {"X-Id": "a"})
    assert one == same != other
    assert np.isnan(none)


def test_a_pull_tells_when_each_list_came_and_what_the_user_says_to_caches_stays(recommender: Recommender) -> None:
    recommender.behaviour["b"] = "missing"
    source = source_of(http={"url": recommender.url, "headers": {"cache-control": "max-age=0"}})
    pull = source.pull(replace(request("a", "b", "c"), is_uncached=True))
    assert pull.rankings.traces is not None
    assert np.isfinite(pull.rankings.traces.came_s).tolist() == [True, True]
    assert {asked.headers["cache-control"] for asked in recommender.asked} == {"max-age=0"}
