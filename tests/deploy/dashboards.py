"""The checked-in dashboards, and ways through them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards"
NAMES = ("rankwatch-overview", "rankwatch-comparison", "rankwatch-daemon")


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def panels(board: Any) -> Iterator[Any]:
    """Every panel that shows something."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def promql(board: Any) -> Iterator[tuple[str, Any]]:
    """Title and target of each query to Prometheus, of annotations too."""
    for owner in (*panels(board), *board["annotations"]["list"]):
        targets = owner["targets"] if "targets" in owner else [owner["target"]]
        yield from ((owner.get("title") or owner["name"], target) for target in targets if "expr" in target)


def sql(board: Any) -> Iterator[tuple[str, str]]:
    """Title and text of each query to the database, of annotations too."""
    for owner in (*panels(board), *board["annotations"]["list"]):
        targets = owner["targets"] if "targets" in owner else [owner["target"]]
        yield from ((owner.get("title") or owner["name"], target["rawSql"]) for target in targets if "rawSql" in target)


def variables(board: Any) -> dict[str, Any]:
    return {variable["name"]: variable for variable in board["templating"]["list"]}
