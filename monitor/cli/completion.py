"""Finds values that the shell completes, in the configuration and the database.

Completion must print only values. So after an error it offers none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monitor.storage import SqlStore

CONFIG_VARIABLE = "RANKWATCH_CONFIG"
DEFAULT_CONFIG = Path("rankwatch.yaml")

_PATIENCE_S = 2.0  # how long completion waits for the database
_MOST_SLOTS = 50

_Complete = Callable[[Any, str], list[str]]


def _make_completer(find: Callable[[Any], Iterable[str]]) -> _Complete:
    """Make a function for typer that returns the values that begin with the typed text."""

    def complete(ctx: Any, incomplete: str) -> list[str]:  # noqa: ANN401 - typer's own click
        try:
            values = dict.fromkeys(find(ctx))
        except Exception:  # noqa: BLE001 - an error would be printed into the typed line
            return []
        return [value for value in values if value.startswith(incomplete)]

    return complete


def _config_of(ctx: Any) -> Path:  # noqa: ANN401 - likewise
    """Return the configuration file of the typed line. It may also be named before the command."""
    for context in (ctx, ctx.find_root()):
        config = context.params.get("config")
        if config is not None and config != DEFAULT_CONFIG:
            return Path(config)
    return Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_CONFIG))


@contextmanager
def _open_database(ctx: Any) -> Iterator[SqlStore]:  # noqa: ANN401 - likewise
    """Open the database of the configuration, if it exists, for a short wait only."""
    from monitor.settings.unchecked_settings import load_database_settings
    from monitor.storage import SqlStore, parse_url
    from monitor.storage.transactions import Database, require_file

    url = parse_url(load_database_settings(_config_of(ctx)).database)
    require_file(url)
    with closing(SqlStore(Database(url, patience_s=_PATIENCE_S))) as store:
        yield store


def _find_comparisons(ctx: Any) -> Iterable[str]:  # noqa: ANN401 - likewise
    from monitor.settings.unchecked_settings import load_comparison_names

    return load_comparison_names(_config_of(ctx))


def _find_metrics(_: Any) -> Iterable[str]:  # noqa: ANN401 - likewise
    from monitor.measures.arm_metrics import ARM_METRICS
    from monitor.measures.metrics import METRICS

    return [*METRICS, *ARM_METRICS]


def _find_alerts(ctx: Any) -> Iterable[str]:  # noqa: ANN401 - likewise
    with _open_database(ctx) as store:
        return [state.alert for state in store.alerts.states(ctx.params.get("comparison"))]


def _find_segments(ctx: Any) -> Iterable[str]:  # noqa: ANN401 - likewise
    """Return the segments of the newest run."""
    with _open_database(ctx) as store:
        segments = []
        for run in store.history.runs(comparison=ctx.params.get("comparison"), limit=1):
            finished = store.history.finished_run(run.id)
            if finished is not None:
                segments += [summary.segment for summary in finished.summaries]
        return segments


def _find_slots(ctx: Any) -> Iterable[str]:  # noqa: ANN401 - likewise
    from monitor.model.instants import format_second

    with _open_database(ctx) as store:
        listed = store.history.runs(comparison=ctx.params.get("comparison"), limit=_MOST_SLOTS)
        return [format_second(run.slot).removesuffix("T00:00:00Z") for run in listed]


complete_comparisons = _make_completer(_find_comparisons)
complete_metrics = _make_completer(_find_metrics)
complete_alerts = _make_completer(_find_alerts)
complete_segments = _make_completer(_find_segments)
complete_slots = _make_completer(_find_slots)
