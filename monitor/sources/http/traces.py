"""What answers over HTTP tell of themselves: when they came, whether from a cache and how old, and their ids."""

import re
import time
from array import array
from collections.abc import Iterable, Mapping
from math import nan
from zlib import crc32

import numpy as np
import pandas as pd

from monitor.model.rankings import Traces
from monitor.pairing.ids import find_users

# Of nginx and whoever follows its custom, CloudFront, Fastly, Akamai and Azure, Cloudflare, Vercel,
# Varnish, and RFC 9211.
_STATUS = (
    "X-Cache",
    "X-Cache-Status",
    "X-Proxy-Cache",
    "CF-Cache-Status",
    "X-Vercel-Cache",
    "X-Varnish",
    "Cache-Status",
)
# What the origin was asked about ("RefreshHit", "TCP_EXPIRED_HIT", "REVALIDATED") does not count;
# the second number in X-Varnish is that of the request whose answer was stored.
_FROM_CACHE = re.compile(
    r"(?i)(?:^|[\s,;]|(?<!refresh)(?<!expired)_)(hit|stale|updating|collapsed)\b(?!=\?0)|^\d+ \d+$"
)
_IDS = (
    "X-Amzn-RequestId",
    "X-Request-Id",
    "Request-Id",
    "X-Correlation-Id",
    "X-Trace-Id",
    "X-Amzn-Trace-Id",
    "X-B3-TraceId",
)


class TraceCollector:
    """Takes each answer of one pull as it comes, and hands back the traces of those with the lists."""

    def __init__(self) -> None:
        self._sign, self._users, self._rows = "", list[str](), array("d")

    def add(self, users: Iterable[str], headers: Mapping[str, str]) -> None:
        """Take an answer about these users."""
        sign, age_s = _find_cache(headers)
        self._sign = self._sign or sign
        told = next(
            (headers[name].encode("utf-8", "surrogateescape") for name in _IDS if name in headers),
            None,
        )
        of_answer = time.monotonic(), age_s, crc32(told) if told else nan
        for user in users:
            self._users.append(user)
            self._rows.extend(of_answer)

    def of(self, users: pd.Index) -> Traces:
        """Those of these users, in their order.

        An answer that was kept from before a restart has none.
        """
        rows = np.append(np.array(self._rows), [nan] * 3).reshape(-1, 3)
        came_s, age_s, ids = rows[
            find_users(users, pd.Index(self._users, dtype="str"))
        ].T  # row -1 is of who has none
        return Traces(came_s=came_s, age_s=age_s, ids=ids, sign=self._sign)


def _find_cache(headers: Mapping[str, str]) -> tuple[str, float]:
    """By which header an answer came from a cache, and its age, 0 where that is not told.

    NaN where it came from none.
    """
    if (age := headers.get("Age", "")[:9]).isdecimal() and int(age):
        return f"Age: {age}", float(age)
    for name in _STATUS:
        if name in headers and (found := _FROM_CACHE.search(headers[name])):
            return f"{name}: {found[1] or found[0]}", 0.0
    return "", nan
