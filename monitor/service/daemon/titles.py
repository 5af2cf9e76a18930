"""Titles of items for pages: asked of a comparison's source once, and remembered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from monitor.pipeline.pull import pull_titles
from monitor.service.composition import Wiring

_WAIT_S = 2.0
_MOST = 50_000


class TitleCache:
    """Titles by comparison and item, of the wiring in force. An item without a title is asked for again with the next page."""

    def __init__(self, wiring: Callable[[], Wiring]) -> None:
        self._wiring = wiring
        self._known: dict[tuple[str, str], str] = {}

    def __call__(self, comparison: str, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Titles of these items; those of a source that does not answer in two seconds are left out."""
        unknown = {item for item in items if (comparison, item) not in self._known}
        watched = self._wiring().watched.get(comparison)
        if unknown and watched is not None:
            found, _ = pull_titles(watched.comparison, watched.arms, slot, unknown, _WAIT_S)
            if len(self._known) + len(found) > _MOST:
                self._known.clear()
            self._known |= {(comparison, item): title for item, title in found.items()}
        return {item: self._known[comparison, item] for item in items if (comparison, item) in self._known}
