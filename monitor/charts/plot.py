"""Charts outside the pages, such as in a notebook: with the style sheet of the pages, which there applies to nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from markupsafe import Markup

_ALONE = "& { max-width: 760px; color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }"


@cache
def read_style() -> str:
    """The style sheet of charts and pages."""
    return resources.files("monitor.charts").joinpath("rankwatch.css").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Plot:
    """Charts as a notebook shows them, light or dark as the reader's system is; ``html`` is the same as text, to be saved."""

    body: Markup

    @property
    def html(self) -> str:
        """A part of a page that holds its own style."""
        # Nested, so that no rule reaches the rest of the notebook; on a ground of its own, whatever the notebook's theme is.
        style = read_style().replace(":root", "&")
        card = '<div class="rankwatch"><div class="card">'
        return f"<style>.rankwatch {{ {style}\n{_ALONE} }}</style>{card}{self.body}</div></div>"

    def _repr_html_(self) -> str:
        return self.html
