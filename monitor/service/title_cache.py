"""Caches the titles of items for pages."""

import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from monitor.pipeline.item_titles import pull_titles
from monitor.service.runner import WatchedComparison

_SOURCE_WAIT_S = 2.0
"""How long a page waits for titles."""
_PAUSE_S = 60.0
"""The pause after a failed request for titles. During the pause pages show no new titles."""
_MOST_TITLES = 50_000


class TitleCache:
    """Caches titles by comparison and item.

    If an item has no title, the next page requests it again.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._titles: dict[tuple[str, str], str] = {}
        self._paused_until_s: dict[str, float] = {}

    def find(
        self,
        watched: Mapping[str, WatchedComparison],
        comparison: str,
        slot: datetime,
        items: Collection[str],
    ) -> Mapping[str, str]:
        """Return the titles of these items. ``watched`` has the sources in use now.

        Omits titles if the source fails or does not answer in two seconds.
        """
        missing = {item for item in items if (comparison, item) not in self._titles}
        is_paused = self._monotonic() < self._paused_until_s.get(comparison, 0.0)
        if missing and not is_paused and comparison in watched:
            self._read(comparison, watched[comparison], slot, missing)
        titles = {}
        for item in items:
            if (comparison, item) in self._titles:
                titles[item] = self._titles[comparison, item]
        return titles

    def _read(
        self,
        comparison: str,
        watched: WatchedComparison,
        slot: datetime,
        items: Collection[str],
    ) -> None:
        """Read the titles of these items from the source of the comparison into the cache."""
        titles, failure = pull_titles(watched.sources.titles, slot, items, _SOURCE_WAIT_S)
        if failure is not None:
            self._paused_until_s[comparison] = self._monotonic() + _PAUSE_S
        if len(self._titles) + len(titles) > _MOST_TITLES:
            self._titles.clear()  # the cache must not grow for ever
        for item, title in titles.items():
            self._titles[comparison, item] = title
