"""The command `show`: one stored run, with the lists that were kept to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import instant, number, print_json, print_table, say, side_by_side
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_instant
from monitor.errors import InputError

if TYPE_CHECKING:
    from datetime import datetime

    from monitor.model import Evidence, Run, Summary
    from monitor.ports import Store

_LOOKED_THROUGH = 10_000


def show(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    config: Config = DEFAULT_CONFIG,
    slot: Annotated[str | None, typer.Option(help="The run's slot, ISO 8601; default: the newest finished run.")] = None,
    users: Annotated[int, typer.Option("--users", "-n", min=0, help="How many of the worst users to show.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show one run: similarity by segment, and both lists of the users that were worst off, side by side."""
    from monitor.settings import load
    from monitor.storage import open_store

    store = open_store(load(config).database, create=False)
    try:
        run = _find(store, comparison, parse_instant(slot) if slot is not None else None)
        summaries, evidence = store.summaries(run.id), store.evidence(run.id)
    finally:
        store.close()
    worst = [each for each in evidence if each.kind == "worst"][:users]
    if as_json:
        print_json(_as_dict(run, summaries, evidence))
        return
    say(f"{run.comparison}  slot {instant(run.slot)}  {run.status}  {run.paired or 0:,} of {run.asked or 0:,} users compared")
    if run.reason:
        say(run.reason)
    print_table(("segment", "metric", "mean>", "std.error>", "p05>", "median>", "users>"), map(_row, summaries))
    for each in worst:
        scores = "  ".join(f"{metric} {number(value)}" for metric, value in each.scores.items())
        say()
        print_table(("", "baseline", "candidate", ""), side_by_side(each), title=f"user {each.user}   {scores}")


def _find(store: Store, comparison: str, slot: datetime | None) -> Run:
    runs = store.runs(comparison=comparison, limit=_LOOKED_THROUGH)
    found = next((run for run in runs if run.status != "running" and slot in (None, run.slot)), None)
    if found is None:
        which = "no finished run" if slot is None else f"no finished run of slot {instant(slot)}"
        msg = f"{which} of a comparison named {comparison!r} is stored; see rankwatch runs"
        raise InputError(msg)
    return found


def _row(summary: Summary) -> tuple[str, ...]:
    figures = (summary.mean, summary.standard_error, summary.value("p05"), summary.value("p50"))
    return (summary.segment, summary.metric, *(number(figure) for figure in figures), f"{summary.n:,}")


def _as_dict(run: Run, summaries: tuple[Summary, ...], evidence: tuple[Evidence, ...]) -> dict[str, object]:
    return {
        "comparison": run.comparison,
        "slot": run.slot,
        "status": run.status.value,
        "reason": run.reason,
        "asked": run.asked,
        "paired": run.paired,
        "summaries": [
            {
                "segment": each.segment,
                "metric": each.metric,
                "users": each.n,
                "undefined": each.n_undefined,
                "mean": each.mean,
                "standard_error": each.standard_error,
                **each.statistics,
            }
            for each in summaries
        ],
        "evidence": [
            {
                "kind": each.kind.value,
                "user": each.user,
                "scores": dict(each.scores),
                "baseline": each.baseline,
                "candidate": each.candidate,
            }
            for each in evidence
        ],
    }
