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


@pytest.mark.parametrize(
    ("name", "value", "sign"),
    [
        ("x-varnish", "32770 3", "X-Varnish: 32770 3"),
        ("X-Cache-Status", "STALE", "X-Cache-Status: STALE"),  # nginx, by custom
        ("X-Cache", "Hit from cloudfront", "X-Cache: Hit"),
        ("X-Cache", "MISS, HIT", "X-Cache: HIT"),  # Fastly: the shield and the edge
        ("X-Cache", "TCP_MEM_HIT from a23-1 (AkamaiGHost/9)", "X-Cache: HIT"),
        ("Cache-Status", "proxy.example;hit;detail=match", "Cache-Status: hit"),  # Squid, RFC 9211
        ("Cache-Status", "Origin; fwd=uri-miss; collapsed", "Cache-Status: collapsed"),
        ("CF-Cache-Status", "UPDATING", "CF-Cache-Status: UPDATING"),
        ("age", "17", "Age: 17"),  # Varnish, Squid, Envoy and all CDNs
        *(("X-Cache", each, "") for each in ("Miss from cloudfront", "RefreshHit from cloudfront", "TCP_REFRESH_HIT", "MISS")),
        *(("CF-Cache-Status", each, "") for each in ("DYNAMIC", "EXPIRED", "REVALIDATED", "BYPASS")),
        *(("Cache-Status", each, "") for each in ("Edge; fwd=stale; stored", "Edge; hit=?0; fwd=miss", "whit; fwd=miss")),
        *(("Age", each, "") for each in ("0", "000", "-5", "old", "²")),
        ("X-Varnish", "32770", ""),
    ],
)
def test_an_answer_from_a_cache_is_known_by_what_the_cache_says(name: str, value: str, sign: str) -> None:
    assert traced({name: value})[::2] == ([float(value) if sign == "Age: 17" else 0 if sign else -1], sign)


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
