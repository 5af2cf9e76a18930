"""Grafana's dashboards for rankwatch in its JSON model, built over the table of series.

``make generated`` writes them.
"""

from boards import comparison, daemon, overview
from boards.layout import Json, render

DASHBOARDS: dict[str, Json] = {
    board["uid"]: board for board in (overview.board(), comparison.board(), daemon.board())
}
"""The three by uid, which is also the name of the file."""

__all__ = ["DASHBOARDS", "Json", "render"]
