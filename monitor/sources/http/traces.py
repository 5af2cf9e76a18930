"""Collects the times of answers over HTTP, their ids, and whether a cache gave them."""

import re
import time
from array import array
from collections.abc import Iterable, Mapping
from math import nan
from zlib import crc32

import numpy as np
import pandas as pd
from multidict import istr

from monitor.measures.pairing.ids import find_users
from monitor.model.rankings import Traces

# These are headers of nginx and similar servers, CloudFront, Fastly, Akamai and Azure, Cloudflare,
# Vercel, Varnish, and RFC 9211.
# `istr` is looked up in half the time.
_AGE = istr("Age")
_STATUS = (
    istr("X-Cache"),
    istr("X-Cache-Status"),
    istr("X-Proxy-Cache"),
    istr("CF-Cache-Status"),
    istr("X-Vercel-Cache"),
    istr("X-Varnish"),
    istr("Cache-Status"),
)
# An answer that the cache checked with the origin ("RefreshHit", "TCP_EXPIRED_HIT", "REVALIDATED")
# is not regarded as an answer of the cache. The second number in X-Varnish is the request whose
# answer was stored.
_FROM_CACHE = re.compile(
    r"(?i)(?:^|[\s,;]|(?<!refresh)(?<!expired)_)(hit|stale|updating|collapsed)\b(?!=\?0)|^\d+ \d+$"
)
_IDS = (
    istr("X-Amzn-RequestId"),
    istr("X-Request-Id"),
    istr("Request-Id"),
    istr("X-Correlation-Id"),
    istr("X-Trace-Id"),
    istr("X-Amzn-Trace-Id"),
    istr("X-B3-TraceId"),
)


class TraceCollector:
    """Collects the traces of the answers of one pull."""

    def __init__(self) -> None:
        self._cache_header = ""
        self._users = list[str]()
        # The time, the age and the id of each user's answer.
        self._rows = array("d")

    def add(self, users: Iterable[str], headers: Mapping[str, str]) -> None:
        """Add an answer about these users."""
        header, age_s = _find_cache(headers)
        self._cache_header = self._cache_header or header
        number = nan
        for name in _IDS:
            request_id = headers.get(name)
            if request_id is not None:
                number = _number_of(request_id)
                break
        row = time.monotonic(), age_s, number
        for user in users:
            self._users.append(user)
            self._rows.extend(row)

    def of(self, users: pd.Index) -> Traces:
        """The traces of these users, in the order of the users.

        The traces of an answer that was stored before a restart are NaN.
        """
        rows = np.append(np.array(self._rows), [nan] * 3).reshape(-1, 3)
        # The last row is for users without an answer. Their row number is -1.
        rows_of_users = find_users(users, pd.Index(self._users, dtype="str"))
        came_s, age_s, ids = rows[rows_of_users].T
        return Traces(came_s=came_s, age_s=age_s, ids=ids, cache_header=self._cache_header)


def _number_of(request_id: str) -> float:
    """The number of an answer's id. NaN if the id is empty."""
    return crc32(request_id.encode("utf-8", "surrogateescape")) if request_id else nan


def _find_cache(headers: Mapping[str, str]) -> tuple[str, float]:
    """The header by which a cache shows that it answered, and the answer's age in seconds.

    The age is 0 if the cache does not report it. It is NaN if no cache answered.
    """
    age = headers.get(_AGE, "")[:9]
    if age.isdecimal() and int(age):
        return f"Age: {age}", float(age)
    for name in _STATUS:
        status = headers.get(name)
        match = None if status is None else _FROM_CACHE.search(status)
        if match is not None:
            return f"{name}: {match[1] or match[0]}", 0.0
    return "", nan
