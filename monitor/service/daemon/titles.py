"""Titles of items for pages: asked of a comparison's source once, and remembered."""

import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from monitor.pipeline.pull import pull_titles
from monitor.service.composition import Wiring

_WAIT_S = 2.0
_PAUSE_S = 60.0
"""How long a source that gave no titles is not asked again: pages, and all parts of a report, are made without."""
_MOST = 50_000


class TitleCache:
    """Titles by comparison and item, of the wiring in force. An item without a title is asked for again with the next page."""

    def __init__(self, wiring: Callable[[], Wiring], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wiring, self._monotonic = wiring, monotonic
        self._known: dict[tuple[str, str], str] = {}
        self._asked_again_at: dict[str, float] = {}

    def __call__(self, comparison: str, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Titles of these items; those of a source that fails, or does not answer in two seconds, are left out."""
        unknown = {item for item in items if (comparison, item) not in self._known}
        watched = self._wiring().watched.get(comparison)
        if unknown and watched is not None and self._monotonic() >= self._asked_again_at.get(comparison, 0.0):
            found, trouble = pull_titles(watched.arms.titles, slot, unknown, _WAIT_S)
            if trouble is not None:
                self._asked_again_at[comparison] = self._monotonic() + _PAUSE_S
            if len(self._known) + len(found) > _MOST:
                self._known.clear()
            self._known |= {(comparison, item): title for item, title in found.items()}
        return {item: self._known[comparison, item] for item in items if (comparison, item) in self._known}
