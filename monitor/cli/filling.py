"""The command `backfill`: measure relevance that has arrived since the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import instant, number, print_json, print_table, say
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_instant

if TYPE_CHECKING:
    from monitor.model import Summary
    from monitor.pipeline.backfill import Filled

FAILED_EXIT = 3


def backfill(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    config: Config = DEFAULT_CONFIG,
    start: Annotated[
        str | None, typer.Option("--from", help="First slot, ISO 8601; default: as far back as relevance is waited for.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last slot, ISO 8601, included.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure relevance that has arrived since, on the lists that were kept with each run. Rules never judge it.

    Tells which runs have their labels now and which wait for them. Exit 3 when relevance that is there could not be used.
    """
    from monitor.service.wiring import one_shot

    first, last = (None if text is None else parse_instant(text) for text in (start, end))
    if first is not None and last is not None and last < first:
        msg = f"--to {end} lies before --from {start}"
        raise typer.BadParameter(msg)
    with one_shot(config, settles=False) as service:
        found = list(service.backfill(comparison, first, last))
    if as_json:
        for each in found:
            print_json(_as_dict(each))
    else:
        _print(found)
    if any(each.trouble for each in found):
        raise typer.Exit(FAILED_EXIT)


def _outcome(filled: Filled) -> str:
    if filled.trouble is not None:
        return "failed"
    return "labelled" if filled.summaries else "waiting"


def _as_dict(filled: Filled) -> dict[str, object]:
    return {
        "comparison": filled.run.comparison,
        "slot": filled.run.slot,
        "outcome": _outcome(filled),
        "reason": filled.trouble,
        "labels_until": filled.run.labels_until,
        "summaries": {
            each.metric: {"mean": each.mean, "standard_error": each.standard_error, "users": each.n} for each in _of_all(filled)
        },
    }


def _of_all(filled: Filled) -> list[Summary]:
    from monitor.model import ALL

    return [summary for summary in filled.summaries if summary.segment == ALL]


def _print(found: list[Filled]) -> None:
    metrics = list(dict.fromkeys(summary.metric for each in found for summary in _of_all(each)))
    columns = ("slot", "outcome", "waits until", *(f"{metric}>" for metric in metrics), "users>", "reason")
    if found:
        print_table(columns, (_row(each, metrics) for each in found))
    waiting = [each.run.slot for each in found if _outcome(each) != "labelled"]
    labelled = len(found) - len(waiting)
    since = f", the oldest since {instant(min(waiting))}" if waiting else ""
    say(f"{labelled} {_runs(labelled)} labelled now, {len(waiting)} still {_wait(len(waiting))}{since}")


def _runs(count: int) -> str:
    return "run" if count == 1 else "runs"


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"


def _row(filled: Filled, metrics: list[str]) -> tuple[str, ...]:
    means = {summary.metric: summary for summary in _of_all(filled)}
    users = max((summary.n for summary in means.values()), default=0)
    return (
        instant(filled.run.slot),
        _outcome(filled),
        "" if filled.summaries or filled.run.labels_until is None else instant(filled.run.labels_until),
        *(number(means[metric].mean if metric in means else None) for metric in metrics),
        f"{users:,}" if filled.summaries else "-",
        filled.trouble or "",
    )
