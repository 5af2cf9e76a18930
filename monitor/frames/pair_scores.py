"""Scores of one pair of lists, which a notebook shows with both lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from monitor.charts import Plot, draw_slopes
from monitor.charts.svg import element

_SHOWN = 50


class PairScores(dict[str, float]):
    """A dict of scores by metric. ``lists`` are the baseline's and the candidate's as they were measured, ids as text."""

    lists: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def words(self) -> str:
        """The scores on one line."""
        return ", ".join(f"{name} {value:.4f}" for name, value in self.items())

    def _repr_html_(self) -> str:
        return draw_pair(*self.lists, {}, self.words).html


def draw_pair(baseline: Sequence[str], candidate: Sequence[str], titles: Mapping[str, str], said: str) -> Plot:
    """The slope chart of two lists, of long ones the first items, below what is said of them."""
    longest = max(len(baseline), len(candidate))
    said += f"; the first {_SHOWN} of {longest:,} places" if longest > _SHOWN else ""
    chart = draw_slopes(baseline[:_SHOWN], candidate[:_SHOWN], titles=titles)
    return Plot(Markup().join((element("p", said), chart)))
