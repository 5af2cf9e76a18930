"""Commands that run or complete slots: `run-once`, `replay` and `backfill`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.completion import DEFAULT_CONFIG, complete_slots
from monitor.cli.output import (
    SOURCE_EXIT,
    attributes_of,
    join_segments,
    log_errors_only,
    print_error,
    print_json,
    print_line,
    print_table,
    progress_bar,
    report_unwritten,
    show_pull,
    summary_dict,
)
from monitor.cli.parameters import (
    AsJson,
    ComparisonArgument,
    Config,
    OneComparison,
    Since,
    Until,
    parse_instant,
    parse_period,
    parse_slot,
    parse_until,
)
from monitor.model.errors import MonitorError
from monitor.model.instants import format_second
from monitor.texts.first_steps import write_same_lists, write_while_learning
from monitor.texts.wording import count_of, write_number

if TYPE_CHECKING:
    from monitor.model.runs import Run, RunResult, Summary
    from monitor.pipeline.backfill import BackfilledRun
    from monitor.storage import SqlStore

    # A row of a table: its first cells, the mean of each metric, and its last cells.
    _Row = tuple[Sequence[str], Mapping[str, float | None], Sequence[str]]

PUSH_VARIABLE = "RANKWATCH_PUSH"

_Again = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Run stored slots again, even if live sources now return different lists. rankwatch "
        "keeps the stored run under the comparison name NAME@ATTEMPT.",
    ),
]


_SlotToRun = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        autocompletion=complete_slots,
        help="Slot to run. 2d means the newest slot that is at least two days old. Default: the "
        "newest slot.",
    ),
]
_Textfile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.prom",
        help="Also write metrics to this file, for the textfile collector of node_exporter.",
    ),
]
_Gateway = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar=PUSH_VARIABLE,
        help="Also push metrics to this Pushgateway. If the URL has user:password@, put the URL "
        "into the environment variable.",
    ),
]
_GatewayInstance = Annotated[
    str,
    typer.Option(metavar="NAME", help="Label `instance` of the pushed metrics. Default: no label."),
]


def run_once(  # noqa: PLR0913 - the command's options
    comparison: OneComparison = None,
    *,
    config: Config = DEFAULT_CONFIG,
    slot: _SlotToRun = None,
    again: _Again = False,
    textfile: _Textfile = None,
    push: _Gateway = None,
    push_instance: _GatewayInstance = "",
    as_json: AsJson = False,
) -> None:
    """Run the newest slot once, send alerts, and exit.

    Use this command instead of the daemon, for example with cron. The command runs one slot of each
    comparison. If the slot has already run, the command runs it again. If a source is live, the
    command runs a stored slot again only with --again, because live sources would return different
    lists now.

    Exit codes: 0 all slots ran, 3 a run failed, 5 a receiver or the Pushgateway could not be
    reached, 74 the textfile could not be written. After an error, finished runs remain stored. The
    textfile and the Pushgateway also receive the metrics of failed runs.
    """
    from monitor.export.exposition import require_textfile
    from monitor.model.runs import Run
    from monitor.service.commands.metrics_output import gateway_at, write_metrics
    from monitor.service.commands.one_shot import open_one_shot

    choice = parse_slot(slot)
    file = None if textfile is None else require_textfile(textfile)
    gateway = None if push is None else gateway_at(push, instance=push_instance)
    if gateway is not None and gateway.password and push != os.environ.get(PUSH_VARIABLE):
        print_error(
            f"the process list shows the password in --push: put the URL into {PUSH_VARIABLE}"
        )
    log_errors_only()
    results: list[RunResult] = []
    stored: list[Run] = []
    errors: list[MonitorError | OSError] = []
    with open_one_shot(config, reconciles=True, say=print_error) as service:
        with progress_bar() as bars:
            shown = replace(service, on_progress=partial(show_pull, bars))
            for outcome in shown.run_once(comparison, choice.slot, at=choice.until, again=again):
                if isinstance(outcome, MonitorError):
                    errors.append(outcome)
                elif isinstance(outcome, Run):
                    stored.append(outcome)
                else:
                    results.append(outcome)
        # Print the runs before the delivery, because they stay stored even if the delivery fails.
        if as_json:
            print_json(*map(result_dict, results))
        else:
            _print_results(results, _stored_rows(service.store, stored))
            _print_same_lists(service.store, results)
        undelivered: list[MonitorError] = []
        try:
            service.deliver()
        except MonitorError as error:
            undelivered.append(error)
        errors += write_metrics(service, comparison, textfile=file, gateway=gateway)
    _raise_last([*errors, *undelivered])
    _exit_by_status(results)


def _raise_last(errors: Sequence[MonitorError | OSError]) -> None:
    """Print all errors but the last one, and raise the last one. Without errors do nothing."""
    for error in errors[:-1]:
        if isinstance(error, OSError):
            report_unwritten(error)
        else:
            print_error(str(error))
    if errors:
        raise errors[-1]


def replay(  # noqa: PLR0913 - the command's options
    comparison: OneComparison = None,
    *,
    since: Annotated[
        str,
        typer.Option("--since", metavar="TIME", help="First slot to run."),
    ],
    until: Annotated[
        str,
        typer.Option(
            "--until",
            metavar="TIME",
            help="Last slot to run, included. A date means its whole day in UTC.",
        ),
    ],
    config: Config = DEFAULT_CONFIG,
    again: _Again = False,
    notify: Annotated[
        bool, typer.Option("--notify", help="Also notify receivers. Default: send nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run all slots of a past period in order.

    Rules and alerts use the time of each slot. Sources without history return today's lists. Stored
    runs of such sources are replaced only if you use --again.
    """
    from monitor.service.commands.one_shot import open_one_shot

    first = parse_instant(since)
    last = parse_until(until)
    parse_period(since, until)
    log_errors_only()
    results: list[RunResult] = []
    with (
        open_one_shot(config, reconciles=False, say=print_error) as service,
        progress_bar() as bar,
    ):
        slots = service.slots(comparison, first, last, again=again)
        if not slots:
            print_error("no slot is due in this period: give an earlier --since or a later --until")
        task = bar.add_task("replay", total=len(slots))
        try:
            for result in service.replay(slots, is_announced=notify):
                results.append(result)
                name = f"replay {result.claim.comparison} {format_second(result.claim.slot)}"
                bar.update(task, advance=1, description=name)
                if as_json:
                    print_json(result_dict(result))
        finally:
            bar.stop()
            if not as_json:
                _print_results(results)
            if notify:
                service.deliver()
    unjudged = 0
    for result in results:
        if any(state.judged_slot > result.claim.slot for state in result.states):
            unjudged += 1
    if unjudged:
        print_error(
            f"{unjudged} of {len(results)} runs were measured but not judged, because newer slots "
            "were judged before. This shows what the rules would have done: rankwatch backtest "
            "--rules rankwatch.yaml"
        )
    _exit_by_status(results)


def _exit_by_status(results: Sequence[RunResult]) -> None:
    if any(result.status == "failed" for result in results):
        raise typer.Exit(SOURCE_EXIT)


def result_dict(result: RunResult) -> dict[str, object]:
    """Return a run for JSON, with its coverage, summaries and transitions."""
    counts: dict[str, object] = {"asked": None, "paired": None, "users_by_reason": {}}
    if result.coverage is not None:
        counts = attributes_of(result.coverage.all, "asked", "paired", "users_by_reason")
    transitions = [
        attributes_of(change, "alert", "segment", "from_state", "to_state")
        for change in result.transitions
    ]
    return {
        **attributes_of(result.claim, "slot", "comparison"),
        **attributes_of(result, "status", "reason"),
        **counts,
        "gap_s": result.gap_s,
        "summaries": list(map(summary_dict, _summaries_if_ok(result))),
        "transitions": transitions,
    }


def _summaries_if_ok(result: RunResult) -> tuple[Summary, ...]:
    """Return the summaries of an ok run, and none for any other run.

    If a run is not ok, it compared too few users to represent all users.
    """
    if result.status != "ok":
        return ()
    return result.summaries


def _print_results(results: Sequence[RunResult], stored: Sequence[_Row] = ()) -> None:
    """Print a table of new runs, after the rows of runs that were already stored."""
    rows = list(stored)
    if not rows and not results:
        return
    for result in results:
        users = ("-", "-")
        if result.coverage is not None:
            row = result.coverage.all
            users = (f"{row.asked:,}", f"{row.paired:,}")
        changes = []
        for change in join_segments(map(asdict, result.transitions), "alert from_state to_state"):
            changes.append("{alert}[{segment}] {from_state} -> {to_state}".format_map(change))
        means = _means_of_all_users(_summaries_if_ok(result))
        begin = (format_second(result.claim.slot), result.claim.comparison, result.status, *users)
        rows.append((begin, means, (", ".join(changes),)))
    _print_means("slot comparison status asked> paired>", rows, "alerts")
    for result in results:
        if result.reason:
            print_line(
                f"{result.claim.comparison} {format_second(result.claim.slot)}: {result.reason}"
            )
    _print_while_learning(results)


def _print_while_learning(results: Sequence[RunResult]) -> None:
    """Print what the first runs of a comparison found, before rules have learned to alert on it."""
    sentences: dict[str, str] = {}
    for result in results:
        sentence = _find_while_learning(result)
        if sentence is not None:
            sentences.setdefault(result.claim.comparison, sentence)
    for comparison, sentence in sentences.items():
        print_line(write_while_learning(comparison, sentence))


def _find_while_learning(result: RunResult) -> str | None:
    """Return what an ok run found that no rule can alert on yet, or None."""
    from monitor.model.alerts import State
    from monitor.model.statistics import ListTrait
    from monitor.service.analysis.interpretation import find_common_list_shares
    from monitor.texts.explanations import write_cause
    from monitor.texts.interpretation import write_shared

    if result.status != "ok" or not result.expectations:
        return None
    has_learned = any(expectation.expected is not None for expectation in result.expectations)
    is_firing = any(state.state is State.FIRING for state in result.states)
    if has_learned or is_firing:
        return None
    explanation = result.explanation
    if explanation is not None and explanation.finding is not None:
        return f"{write_cause(explanation.finding)}."
    shared = [score for score in result.arm_scores if score.metric == ListTrait.SHARED]
    sentences = write_shared(find_common_list_shares(shared))
    return sentences[0] if sentences else None


def _print_same_lists(store: SqlStore, results: Sequence[RunResult]) -> None:
    """Print which runs compared the lists of the run before once more."""
    for result in results:
        claim = result.claim
        before, _ = store.pages.neighbours(claim.comparison, claim.slot)
        if before is None or result.input_hash is None:
            continue
        if result.input_hash == before.input_hash:
            print_line(write_same_lists(claim.comparison, format_second(before.slot)))


def _stored_rows(store: SqlStore, stored: Sequence[Run]) -> list[_Row]:
    """Return a row of the table for each run that was stored before."""
    rows: list[_Row] = []
    for run in stored:
        finished = store.history.finished_run(run.id)
        summaries = finished.summaries if finished is not None and run.status == "ok" else ()
        users = (f"{run.asked or 0:,}", f"{run.paired or 0:,}")
        begin = (format_second(run.slot), run.comparison, run.status, *users)
        rows.append((begin, _means_of_all_users(summaries), ("run before",)))
    return rows


def _means_of_all_users(summaries: Iterable[Summary]) -> dict[str, float | None]:
    """Return the mean over all users of each metric, without the metrics of the noise floor."""
    from monitor.model.statistics import parse_derived

    means = {}
    for summary in _of_all(summaries):
        # Leave out the noise floor, because the table would be too wide.
        if parse_derived(summary.metric).derived is None:
            means[summary.metric] = summary.mean
    return means


def _print_means(columns: str, rows: Sequence[_Row], last_columns: str) -> None:
    """Print a table. The columns of the metrics are between the first and the last columns."""
    metrics: dict[str, None] = {}
    for _, means, _ in rows:
        metrics |= dict.fromkeys(means)
    cells = []
    for begin, means, end in rows:
        cells.append((*begin, *(write_number(means.get(metric)) for metric in metrics), *end))
    titles = [column.replace("_", " ") for column in columns.split()]
    named = [f"{metric}>" for metric in metrics]
    print_table((*titles, *named, *last_columns.split()), cells)


def _of_all(summaries: Iterable[Summary]) -> list[Summary]:
    from monitor.model.rankings import ALL

    return [summary for summary in summaries if summary.segment == ALL]


def backfill(
    comparison: ComparisonArgument,
    *,
    config: Config = DEFAULT_CONFIG,
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Compute relevance metrics of earlier runs.

    The command uses the lists that are stored with each run. By default, the command measures all
    runs that are still waiting for relevance data. No rule judges relevance metrics. The output
    lists the runs that this command measured, and the runs that are still waiting for relevance
    data. The exit code is 3 if relevance data has arrived but could not be used.
    """
    from monitor.service.commands.one_shot import open_one_shot

    first, last = parse_period(since, until)
    log_errors_only()
    with open_one_shot(config, reconciles=False) as service:
        filled_runs = list(service.backfill(comparison, first, last))
    if as_json:
        print_json(*map(_backfill_dict, filled_runs))
    else:
        _print_backfill(filled_runs)
    if any(filled_run.reason for filled_run in filled_runs):
        raise typer.Exit(SOURCE_EXIT)


def _write_outcome(filled: BackfilledRun) -> str:
    if filled.reason is not None:
        return "failed"
    return "labelled" if filled.summaries else "waiting"


def _backfill_dict(filled: BackfilledRun) -> dict[str, object]:
    """Return the outcome for one run as JSON."""
    return {
        **attributes_of(filled.run, "comparison", "slot"),
        "status": _write_outcome(filled),
        "reason": filled.reason,
        "labels_until": filled.run.labels_until,
        "summaries": list(map(summary_dict, _of_all(filled.summaries))),
    }


def _print_backfill(filled_runs: Sequence[BackfilledRun]) -> None:
    """Print a table of the runs, and how many of them still wait."""
    rows = []
    waiting = []
    for filled_run in filled_runs:
        slot = filled_run.run.slot
        summaries = _of_all(filled_run.summaries)
        if _write_outcome(filled_run) != "labelled":
            waiting.append(slot)
        waits_until = ""
        users = "-"
        if summaries:
            users = f"{max(summary.n for summary in summaries):,}"
        elif filled_run.run.labels_until is not None:
            waits_until = format_second(filled_run.run.labels_until)
        means = {summary.metric: summary.mean for summary in summaries}
        begin = (format_second(slot), _write_outcome(filled_run), waits_until)
        rows.append((begin, means, (users, filled_run.reason or "")))
    if rows:
        _print_means("slot outcome waits_until", rows, "users> reason")
    labelled = len(filled_runs) - len(waiting)
    verb = "waits" if len(waiting) == 1 else "wait"
    status = f"{count_of(labelled, 'run')} labelled now, {len(waiting)} still {verb}"
    if waiting:
        status += f", the oldest since {format_second(min(waiting))}"
    print_line(status)
