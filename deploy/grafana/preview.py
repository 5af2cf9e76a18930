"""Draws what panels of the dashboard *Comparison* show over two weeks of real lists: `make preview`.

The numbers are the answers of a real Prometheus to the panels' own queries; a test compares the file with what this draws.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from deploy import dashboards
from deploy.fortnight import BEGIN, END, Fortnight, told
from factories import HOUR
from panel_svg import FAINT, Frame, draw, text
from servers.postgres import running_postgres

TARGET = Path(__file__).with_name("preview.svg")
SHOWN = (
    ("Similarity of all users", 0, 0, 570, 270),
    ("Quantiles", 580, 0, 310, 270),
    ("Users by similarity", 0, 280, 440, 230),
    ("Users below a floor", 450, 280, 440, 230),
    ("Similarity by segment", 0, 520, 440, 210),
    ("Alerts", 450, 520, 440, 210),
)
ABOUT = (
    "Drawn from the panels' own queries on a Prometheus; not a screenshot of Grafana. Real lists; "
    "from 8 January on a fifth of the users get one popularity list."
)
WIDTH, HEIGHT, TOP = 890, 730, 52


def _head() -> list[str]:
    size = f'width="{WIDTH + 20}" height="{HEIGHT + TOP + 14}"'
    looks = (
        f'viewBox="0 0 {WIDTH + 20} {HEIGHT + TOP + 14}" font-family="system-ui, sans-serif" '
        'role="img"'
    )
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {looks}>',
        (
            "<title>Panels of the dashboard Comparison over two weeks of real lists, drawn from "
            "their own queries</title>"
        ),
        f'<rect {size} fill="#f4f5f7"/>',
        text(14, 24, "rankwatch: Comparison", size=15, weight=600),
        text(14, 41, ABOUT, fill=FAINT, size=10),
    ]


def svg(fortnight: Fortnight) -> str:
    """The picture."""
    panels = {
        panel["title"]: panel
        for panel in dashboards.panels(dashboards.read("rankwatch-comparison"))
    }
    parts = _head()
    for title, x, y, width, height in SHOWN:
        frame = Frame(
            x=x + 10,
            y=y + TOP,
            width=width,
            height=height,
            begin=BEGIN.timestamp(),
            end=(END + 24 * HOUR).timestamp(),
        )
        answers = [
            (target["legendFormat"], fortnight.over_time(target["expr"]))
            for target in panels[title]["targets"]
        ]
        parts += draw(panels[title], answers, frame)
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as folder,
        running_postgres() as server,
        server.database() as url,
        told(Path(folder), url) as two_weeks,
    ):
        TARGET.write_text(svg(two_weeks), encoding="utf-8")
