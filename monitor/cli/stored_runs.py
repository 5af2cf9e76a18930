"""Commands that show stored runs: `runs` lists them, `show` prints one with lists that were kept, `report` writes a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import output, parameters
from monitor.errors import InputError

if TYPE_CHECKING:
    from datetime import datetime

    from monitor.model.runs import Run, RunRecord, Summary
    from monitor.storage import SqlStore

_LOOKED_THROUGH = 10_000


def runs(
    comparison: parameters.OneComparison = None,
    *,
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, max=1_000_000, help="How many of the newest to show."),
    ] = 20,
    as_json: parameters.AsJson = False,
) -> None:
    """List stored runs, newest first."""
    with parameters.opened_database(config) as (store, configured):
        found = store.history.runs(comparison=comparison, limit=limit)
    if not found:
        parameters.require_known(comparison, configured)
    columns = "slot comparison status asked> paired> attempt> seconds> reason"
    output.print_records(map(_run_dict, found), columns, as_json=as_json)


def _run_dict(run: Run) -> dict[str, object]:
    names = (
        "slot comparison status reason asked paired k attempt owner config_hash input_hash "
        "models started_at finished_at"
    )
    seconds = (run.finished_at - run.started_at).total_seconds() if run.finished_at else None
    return {**output.pick(run, *names.split()), "seconds": seconds}


def show(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    slot: Annotated[
        str | None, typer.Option(help="The run's slot, ISO 8601; default: the newest finished run.")
    ] = None,
    users: Annotated[
        int,
        typer.Option(
            "--users", "-n", min=0, max=1_000_000, help="How many of the worst users to show."
        ),
    ] = 3,
    as_json: parameters.AsJson = False,
) -> None:
    """Show one stored run, and both lists of its worst users.

    Similarity by segment, and why it fell.
    """
    from monitor.model.alerts import ACCEPTED
    from monitor.model.runs import KEPT_MARK, items_of
    from monitor.service.commands.report import titles_of

    with parameters.opened_database(config) as (store, _):
        record = _find(
            store, comparison, parameters.parse_instant(slot) if slot is not None else None
        )
        run, explanation = record.run, record.explanation
        evidence = store.history.evidence(run.id)
        accepted = [
            each
            for each in store.alerts.transitions(comparison=comparison, limit=None)
            if each.alert == ACCEPTED
        ]
        kept = _kept_attempts(store, run)
        before, _ = store.pages.neighbours(run.comparison, run.slot)
        found = (
            store.history.runs(comparison=run.comparison, limit=1, since=before, until=before)
            if before
            else ()
        )
        alike = [each.slot for each in found if each.input_hash == run.input_hash is not None]
    worst = [each for each in evidence if each.kind == "worst"][:users]
    titles = titles_of(
        config,
        run.comparison.partition(KEPT_MARK)[0],
        run.slot,
        items_of(evidence if as_json else worst),
    )
    if as_json:
        shown = (
            "comparison",
            "slot",
            "status",
            "reason",
            "asked",
            "paired",
            "k",
            "catalogue_size",
            "input_hash",
            "models",
        )
        output.print_json(
            {
                **output.pick(run, *shown, "labelled_at", "labels_until"),
                "summaries": [_summary_dict(run, each) for each in record.summaries],
                "arm_scores": [
                    output.pick(each, "segment", "arm", "metric", "value") | {"lists": each.n}
                    for each in record.arm_scores
                ],
                "evidence": [
                    output.pick(each, "kind", "user", "scores", "baseline", "candidate")
                    for each in evidence
                ],
                "explanation": None if explanation is None else asdict(explanation),
                "earlier_attempts": kept,
                "same_lists_as": alike,
                "titles": titles,
            }
        )
        return
    _print_run(record)
    for each in alike:
        output.print_line(f"the same lists as in the run of {output.instant(each)}")
    for level in accepted:
        output.print_line(
            f"normal since {output.instant(level.slot)}: {level.reason}, {output.instant(level.at)}"
        )
    output.print_evidence(worst, titles)
    for name in kept:
        output.print_line(
            f"an earlier attempt is kept: rankwatch show {name} --slot {output.instant(run.slot)}"
        )


def report(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    file: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")],
    slot: Annotated[
        str | None,
        typer.Option(help="As of this run's slot, ISO 8601; default: the newest finished run."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="Over the time from here, with the runs in which alerts began."
        ),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="As of the newest run up to here, included.")
    ] = None,
    config: parameters.Config = parameters.DEFAULT_CONFIG,
) -> None:
    """Write the pages of a comparison to one HTML file.

    Over time, the run, and both lists of its worst users. The file needs no server and no network.
    """
    from monitor.service.commands.report import report_of
    from monitor.settings.loader import load_settings

    if slot is not None and (start or end):
        raise typer.BadParameter("--slot names one run, --from and --to a time: give either")
    chosen = None if slot is None else parameters.parse_instant(slot)
    first, last = parameters.parse_period(start, end)
    output.require_writable(file)
    output.log_errors_only()
    output.write_whole(
        file, report_of(load_settings(config), comparison, slot=chosen, since=first, until=last)
    )
    output.print_written(file)


def _kept_attempts(store: SqlStore, run: Run) -> list[str]:
    """The names under which earlier attempts of the run's slot are kept."""
    from monitor.model.runs import KEPT_MARK

    found = store.history.runs(
        comparison=None, limit=_LOOKED_THROUGH, since=run.slot, until=run.slot
    )
    return [
        each.comparison
        for each in found
        if each.comparison.startswith(f"{run.comparison}{KEPT_MARK}")
    ]


def _find(store: SqlStore, comparison: str, slot: datetime | None) -> RunRecord:
    found = store.history.runs(comparison=comparison, limit=_LOOKED_THROUGH, since=slot, until=slot)
    run = next((each for each in found if each.status != "running"), None)
    record = None if run is None else store.history.record(run.id)
    if record is None:
        which = (
            "no finished run" if slot is None else f"no finished run of slot {output.instant(slot)}"
        )
        raise InputError(
            f"{which} of a comparison named {comparison!r} is stored; see rankwatch runs"
        )
    return record


def _print_run(record: RunRecord) -> None:
    from monitor.presentation import arm_rows, explanation_tables, explanation_title

    run, explanation = record.run, record.explanation
    compared = f"{run.paired or 0:,} of {run.asked or 0:,} users compared"
    output.print_line(
        f"{run.comparison}  slot {output.instant(run.slot)}  {run.status}  {compared}"
    )
    if run.reason:
        output.print_line(run.reason)
    for arm, model in (run.models or {}).items():
        since = (
            f", {model.before} until the run of {output.instant(model.since)}"
            if model.since
            else ""
        )
        output.print_line(f"model of the {arm}: {model.now or 'not known'}{since}")
    if explanation is not None:
        output.print_line(f"{explanation_title(explanation)}: {explanation.sentence}")
    columns = "segment metric mean> standard_error> p05> p50> users> by_chance>"
    output.print_records(
        (_summary_dict(run, summary) for summary in record.summaries), columns, as_json=False
    )
    _print_notes(run)
    if record.arm_scores:
        output.print_line()
        output.print_table(
            ("segment", "arm-wide metric", "baseline>", "candidate>", "lists>"),
            arm_rows(record.arm_scores),
        )
    for table in () if explanation is None else explanation_tables(explanation):
        output.print_line()
        output.print_table(table.columns, table.rows, title=table.title)


def _print_notes(run: Run) -> None:
    """What the scores by chance refer to, and the state of the labels of relevance."""
    if run.k is not None and run.catalogue_size is not None:
        output.print_line(
            (
                f"by chance: two random lists of {run.k:,} from a catalogue of "
                f"{run.catalogue_size:,} items"
            )
        )
    if run.labelled_at is not None:
        output.print_line(f"relevance: labelled {output.instant(run.labelled_at)}")
    elif run.labels_until is not None:
        command = f"rankwatch backfill {run.comparison}"
        output.print_line(
            (
                f"relevance: waiting for labels until {output.instant(run.labels_until)}; "
                f"{command} looks for them"
            )
        )


def _summary_dict(run: Run, summary: Summary) -> dict[str, object]:
    from monitor.presentation import score_by_chance

    return {
        **output.pick(summary, "segment", "metric"),
        "users": summary.n,
        "undefined": summary.n_undefined,
        **output.pick(summary, "mean", "standard_error"),
        "by_chance": score_by_chance(summary.metric, run),
        **summary.statistics,
    }
