"""The opened sources of one comparison: those of both arms, and what both share."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.ports import ItemTitleSource, ItemWeightSource, RelevanceSource, Source, UserSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """The sources of one comparison, opened; ``weights``, ``relevance`` and ``titles`` where it has any.

    ``dimensions``: the columns of the users' source that segments are made of. ``again``: the baseline's second
    lists, where a noise floor is pulled.
    """

    baseline: Source
    candidate: Source
    users: UserSource
    dimensions: tuple[str, ...]
    weights: ItemWeightSource | None = None
    relevance: RelevanceSource | None = None
    titles: ItemTitleSource | None = None
    again: Source | None = None

    def close(self) -> None:
        """Close all of them."""
        shared = (self.users, self.weights, self.relevance, self.titles)
        for source in (self.baseline, self.candidate, self.again, *shared):
            if source is not None:
                source.close()
