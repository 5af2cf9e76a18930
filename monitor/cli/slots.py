"""Commands that run or complete slots: `run-once`, `replay` and `backfill`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import output
from monitor.cli.parameters import (
    DEFAULT_CONFIG,
    AsJson,
    Config,
    OneComparison,
    parse_instant,
    parse_period,
)
from monitor.errors import MonitorError

if TYPE_CHECKING:
    from monitor.model.runs import RunResult, Summary
    from monitor.pipeline.backfill import BackfilledRun

PUSH_VARIABLE = "RANKWATCH_PUSH"

_Again = Annotated[
    bool,
    typer.Option(
        "--again",
        help=(
            "Ask live sources anew for slots that are stored; what is stored stays as NAME@ATTEMPT."
        ),
    ),
]


def run_once(  # noqa: PLR0913 - the command's options
    comparison: OneComparison = None,
    *,
    config: Config = DEFAULT_CONFIG,
    slot: Annotated[
        str | None,
        typer.Option(help="The slot, ISO 8601; default: the newest one of the schedule."),
    ] = None,
    again: _Again = False,
    textfile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.prom",
            help="Write the metrics afterwards for node_exporter's textfile collector.",
        ),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar=PUSH_VARIABLE,
            help="Push the same to a Pushgateway; user:password@ belongs into the variable.",
        ),
    ] = None,
    push_instance: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Label `instance` of what is pushed; by default there is none."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Run one slot of each comparison, notify, and exit.

    This is rankwatch without a daemon. Exit 0 when all ran, 3 when one failed, 5 when a receiver or
    the Pushgateway could not be reached, 74 when the textfile could not be written. What was run
    stays stored; file and push show a run that failed, too. A slot whose live sources have answered
    before is left as it is: see --again."""
    from monitor.export.exposition import require_textfile
    from monitor.service.commands.one_shot import gateway_at, open_one_shot, write_metrics

    wanted = parse_instant(slot) if slot is not None else None
    file = None if textfile is None else require_textfile(textfile)
    gateway = None if push is None else gateway_at(push, instance=push_instance)
    if gateway is not None and gateway.password and push != os.environ.get(PUSH_VARIABLE):
        output.print_error(
            f"who lists processes sees the password of --push: give its URL by {PUSH_VARIABLE}"
        )
    output.log_errors_only()
    with open_one_shot(config, reconciles=True, say=output.print_error) as service:
        with output.progress() as bars:
            told = replace(service, on_progress=partial(output.show_pull, bars))
            outcomes = list(told.run_once(comparison, wanted, again=again))
        results = [each for each in outcomes if not isinstance(each, MonitorError)]
        errors: list[MonitorError | OSError] = [
            each for each in outcomes if isinstance(each, MonitorError)
        ]
        # Printed before anything is delivered: what was run stays stored whatever becomes of the
        # messages.
        if as_json:
            output.print_json(*map(result_dict, results))
        else:
            _print_results(results)
        undelivered: list[MonitorError] = []
        try:
            service.deliver()
        except MonitorError as error:
            undelivered.append(error)
        errors += write_metrics(service, comparison, textfile=file, gateway=gateway)
    _raise([*errors, *undelivered])
    _exit(results)


def _raise(errors: Sequence[MonitorError | OSError]) -> None:
    """Raise the last error, if there is any, after a line for each one before it."""
    for each in errors[:-1]:
        if isinstance(each, OSError):
            output.report_unwritten(each)
        else:
            output.print_error(str(each))
    if errors:
        raise errors[-1]


def replay(  # noqa: PLR0913 - the command's options
    comparison: OneComparison = None,
    *,
    start: Annotated[str, typer.Option("--from", help="First slot, ISO 8601, included.")],
    end: Annotated[str, typer.Option("--to", help="Last slot, ISO 8601, included.")],
    config: Config = DEFAULT_CONFIG,
    again: _Again = False,
    notify: Annotated[
        bool, typer.Option("--notify", help="Notify receivers too; by default nothing is sent.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run every slot of a past period in order, as if live.

    Rules, states and transitions have the slot's time. Sources that do not know of slots answer for
    now: runs that stored what such sources answered then are not replaced, see --again."""
    from monitor.service.commands.one_shot import open_one_shot

    first, last = parse_instant(start), parse_instant(end)
    parse_period(start, end)
    output.log_errors_only()
    results: list[RunResult] = []
    with (
        open_one_shot(config, reconciles=False, say=output.print_error) as service,
        output.progress() as bar,
    ):
        slots = service.slots(comparison, first, last, again=again)
        task = bar.add_task("replay", total=len(slots))
        try:
            for result in service.replay(slots, is_announced=notify):
                results.append(result)
                bar.update(
                    task,
                    advance=1,
                    description=f"replay {result.claim.comparison} {output.instant(result.claim.slot)}",
                )
                if as_json:
                    output.print_json(result_dict(result))
        finally:
            bar.stop()
            if not as_json:
                _print_results(results)
            if notify:
                service.deliver()
    if unjudged := sum(
        any(state.judged_slot > result.claim.slot for state in result.states) for result in results
    ):
        output.print_error(
            f"{unjudged} of {len(results)} runs were measured but judged nothing: newer slots of "
            "theirs were judged before. To see what the rules would have done: rankwatch backtest "
            "--rules rankwatch.yaml"
        )
    _exit(results)


def _exit(results: Sequence[RunResult]) -> None:
    if any(result.status == "failed" for result in results):
        raise typer.Exit(output.SOURCE_EXIT)


def result_dict(result: RunResult) -> dict[str, object]:
    """One run for machines: what it compared, summaries by metric and segment if it is ok, and its transitions."""
    coverage = result.coverage.all if result.coverage else None
    summaries: dict[str, dict[str, object]] = {}
    for each in _believable(result):
        summaries.setdefault(each.metric, {})[each.segment] = output.pick(
            each, "mean", "standard_error"
        ) | {"users": each.n}
    return {
        **output.pick(result.claim, "slot", "comparison"),
        **output.pick(result, "status", "reason"),
        "asked": coverage.asked if coverage else None,
        "paired": coverage.paired if coverage else None,
        "coverage": {
            f"{arm}.{reason}": count
            for (arm, reason), count in (coverage.reasons if coverage else {}).items()
        },
        "gap_seconds": result.gap_seconds,
        "summaries": summaries,
        "transitions": [
            output.pick(each, "alert", "segment") | {"from": each.from_state, "to": each.to_state}
            for each in result.transitions
        ],
    }


def _believable(result: RunResult) -> tuple[Summary, ...]:
    # Of a run that compared too few users no summary is shown: it says nothing of the others.
    return result.summaries if result.status == "ok" else ()


def _print_results(results: Sequence[RunResult]) -> None:
    from monitor.model.statistics import parse_derived

    measured = dict.fromkeys(
        summary.metric for result in results for summary in _believable(result)
    )
    metrics = [
        name for name in measured if parse_derived(name)[0] is None
    ]  # the noise floor's would make it too wide
    columns = (
        "slot",
        "comparison",
        "status",
        "asked>",
        "paired>",
        *(f"{metric}>" for metric in metrics),
        "alerts",
    )
    output.print_table(columns, (_result_row(result, metrics) for result in results))
    for result in results:
        if result.reason:
            output.print_line(
                f"{result.claim.comparison} {output.instant(result.claim.slot)}: {result.reason}"
            )


def _result_row(result: RunResult, metrics: Sequence[str]) -> tuple[str, ...]:
    coverage = result.coverage.all if result.coverage else None
    means = {summary.metric: summary.mean for summary in _of_all(_believable(result))}
    changes = (
        f"{each.alert}[{each.segment}] {each.from_state} -> {each.to_state}"
        for each in result.transitions
    )
    return (
        output.instant(result.claim.slot),
        result.claim.comparison,
        result.status,
        f"{coverage.asked:,}" if coverage else "-",
        f"{coverage.paired:,}" if coverage else "-",
        *(output.number(means.get(metric)) for metric in metrics),
        ", ".join(changes),
    )


def _of_all(summaries: Iterable[Summary]) -> list[Summary]:
    from monitor.model.rankings import ALL

    return [summary for summary in summaries if summary.segment == ALL]


def backfill(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    config: Config = DEFAULT_CONFIG,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="First slot, ISO 8601; default: as far back as relevance is waited for."
        ),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last slot, ISO 8601, included.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure relevance that has arrived since the runs.

    On the lists that were kept with each run; rules never judge it. Lists the runs that have their
    labels now and those that wait for them. Exit 3 when relevance that is there could not be used.
    """
    from monitor.service.commands.one_shot import open_one_shot

    first, last = parse_period(start, end)
    output.log_errors_only()
    with open_one_shot(config, reconciles=False) as service:
        found = list(service.backfill(comparison, first, last))
    if as_json:
        output.print_json(*map(_backfill_dict, found))
    else:
        _print_backfill(found)
    if any(each.trouble for each in found):
        raise typer.Exit(output.SOURCE_EXIT)


def _outcome(filled: BackfilledRun) -> str:
    if filled.trouble is not None:
        return "failed"
    return "labelled" if filled.summaries else "waiting"


def _backfill_dict(filled: BackfilledRun) -> dict[str, object]:
    return {
        **output.pick(filled.run, "comparison", "slot"),
        "outcome": _outcome(filled),
        "reason": filled.trouble,
        "labels_until": filled.run.labels_until,
        "summaries": {
            each.metric: output.pick(each, "mean", "standard_error") | {"users": each.n}
            for each in _of_all(filled.summaries)
        },
    }


def _print_backfill(found: Sequence[BackfilledRun]) -> None:
    metrics = list(
        dict.fromkeys(summary.metric for each in found for summary in _of_all(each.summaries))
    )
    columns = (
        "slot",
        "outcome",
        "waits until",
        *(f"{metric}>" for metric in metrics),
        "users>",
        "reason",
    )
    if found:
        output.print_table(columns, (_backfill_row(each, metrics) for each in found))
    waiting = [each.run.slot for each in found if _outcome(each) != "labelled"]
    labelled = len(found) - len(waiting)
    since = f", the oldest since {output.instant(min(waiting))}" if waiting else ""
    runs, wait = "run" if labelled == 1 else "runs", "waits" if len(waiting) == 1 else "wait"
    output.print_line(f"{labelled} {runs} labelled now, {len(waiting)} still {wait}{since}")


def _backfill_row(filled: BackfilledRun, metrics: Sequence[str]) -> tuple[str, ...]:
    means = {summary.metric: summary for summary in _of_all(filled.summaries)}
    users = max((summary.n for summary in means.values()), default=0)
    return (
        output.instant(filled.run.slot),
        _outcome(filled),
        ""
        if filled.summaries or filled.run.labels_until is None
        else output.instant(filled.run.labels_until),
        *(output.number(means[metric].mean if metric in means else None) for metric in metrics),
        f"{users:,}" if filled.summaries else "-",
        filled.trouble or "",
    )
