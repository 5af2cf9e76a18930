"""Writes dashboards/*.json, which Grafana reads. Run it after a change in boards/: python deploy/grafana/generate.py."""

from pathlib import Path

from boards import DASHBOARDS, render

if __name__ == "__main__":
    folder = Path(__file__).parent / "dashboards"
    for name, board in DASHBOARDS.items():
        (folder / f"{name}.json").write_text(render(board), encoding="utf-8")
