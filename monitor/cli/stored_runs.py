"""Commands for stored runs: `runs` lists them, `show` prints one run, `report` writes a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.cli.completion import DEFAULT_CONFIG
from monitor.cli.output import (
    log_errors_only,
    print_evidence,
    print_json,
    print_line,
    print_objects,
    print_table,
    print_written,
    require_writable,
    summary_dict,
    write_whole,
)
from monitor.cli.parameters import (
    AsJson,
    ComparisonArgument,
    Config,
    OneComparison,
    Since,
    SlotChoice,
    StoredSlot,
    Until,
    opened_database,
    parse_period,
    parse_slot,
    require_known,
)
from monitor.model.errors import InputError
from monitor.model.instants import format_second

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from monitor.model.runs import Evidence, FinishedRun, Run, Summary
    from monitor.model.unpaired import UnpairedResults
    from monitor.storage import SqlStore

_LOOKED_THROUGH = 10_000
_MOST_ITEMS = 20  # of an unpaired run


def list_runs(
    comparison: OneComparison = None,
    *,
    config: Config = DEFAULT_CONFIG,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, max=1_000_000, help="Number of runs to show."),
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """List stored runs, newest first."""
    with opened_database(config) as (store, configured):
        listed = store.history.runs(comparison=comparison, limit=limit)
    if not listed:
        require_known(comparison, configured)
    columns = "slot comparison status asked> paired> attempt> duration_s> reason"
    print_objects(
        map(_run_dict, listed),
        columns,
        as_json=as_json,
        empty="no runs yet: `rankwatch run-once` runs the newest slot",
    )


def _run_dict(run: Run) -> dict[str, object]:
    duration_s = None
    if run.finished_at is not None:
        duration_s = (run.finished_at - run.started_at).total_seconds()
    return asdict(run) | {"duration_s": duration_s}


def show(
    comparison: ComparisonArgument,
    *,
    config: Config = DEFAULT_CONFIG,
    slot: StoredSlot = None,
    users: Annotated[
        int,
        typer.Option(
            "--users",
            min=0,
            max=1_000_000,
            help="Number of users to show. The command shows the users with the least similar "
            "lists.",
        ),
    ] = 3,
    as_json: AsJson = False,
) -> None:
    """Show a stored run, and why similarity fell.

    The output shows the similarity in each segment, and both lists of the users with the least
    similar lists.
    """
    from monitor.model.alerts import ACCEPTED_LEVEL
    from monitor.model.runs import KEPT_MARK
    from monitor.service.commands.report import titles_of

    choice = parse_slot(slot)
    with opened_database(config) as (store, configured):
        run = _find_finished_run(store, comparison, choice)
        if run is None:
            require_known(comparison, configured)
            raise InputError(_write_no_run(comparison, choice))
        evidence = store.history.evidence(run.id)
        transitions = store.alerts.transitions(comparison=comparison, limit=None)
        attempts = _earlier_attempts(store, run)
        before, _ = store.pages.neighbours(run.comparison, run.slot)
    is_same_input = run.has_input_of(before)
    worst = [example for example in evidence if example.kind == "worst"][:users]
    titles = titles_of(
        config,
        run.comparison.partition(KEPT_MARK)[0],
        run.slot,
        _items_shown(run, evidence if as_json else worst),
    )
    if as_json:
        print_json(
            {
                **asdict(run),
                "summaries": [_summary_dict(run, summary) for summary in run.summaries],
                "evidence": evidence,
                "earlier_attempts": attempts,
                "is_same_input": is_same_input,
                "titles": titles,
            }
        )
        return
    same_lists_since = before.slot if before is not None and is_same_input else None
    print_run(run, titles, same_lists_since)
    for change in transitions:
        if change.alert == ACCEPTED_LEVEL:
            since = format_second(change.slot)
            at = format_second(change.at)
            print_line(f"normal since {since}: {change.reason}, {at}")
    print_evidence(worst, titles)
    for name in attempts:
        print_line(
            f"an earlier attempt is stored: rankwatch show {name} --slot {format_second(run.slot)}"
        )


def report(
    comparison: ComparisonArgument,
    *,
    file: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")],
    slot: StoredSlot = None,
    since: Since = None,
    until: Until = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Write the pages of a comparison to one HTML file.

    The file shows the comparison over time, and one run in detail: the newest run, or the run of
    --slot. The file also shows both lists of the users with the least similar lists. With --since
    and --until, the file also shows the runs in which alerts began. A browser can open the file
    without a server or a network.
    """
    from monitor.service.commands.report import report_of
    from monitor.settings.loader import load_settings

    if slot is not None and (since or until):
        raise typer.BadParameter(
            "--slot selects one run, but --since and --until select a period: give either --slot "
            "or a period"
        )
    choice = parse_slot(slot)
    first, last = parse_period(since, until)
    require_writable(file)
    log_errors_only()
    text = report_of(
        load_settings(config),
        comparison,
        slot=choice.slot,
        since=first,
        until=choice.until or last,
    )
    write_whole(file, text)
    print_written(file)


def _earlier_attempts(store: SqlStore, run: Run) -> list[str]:
    """Return the names under which earlier attempts of the slot are stored."""
    from monitor.model.runs import KEPT_MARK

    prefix = f"{run.comparison}{KEPT_MARK}"
    listed = store.history.runs(
        comparison=None,
        limit=_LOOKED_THROUGH,
        since=run.slot,
        until=run.slot,
    )
    return [other.comparison for other in listed if other.comparison.startswith(prefix)]


def _find_finished_run(store: SqlStore, comparison: str, choice: SlotChoice) -> FinishedRun | None:
    """Return the newest finished run that the choice allows. None if there is none."""
    listed = store.history.runs(
        comparison=comparison,
        limit=_LOOKED_THROUGH,
        since=choice.slot,
        until=choice.slot or choice.until,
    )
    for run in listed:
        if run.status == "running":
            continue
        finished = store.history.finished_run(run.id)
        if finished is not None:
            return finished
    return None


def _write_no_run(comparison: str, choice: SlotChoice) -> str:
    slot = choice.slot or choice.until
    if slot is None:
        return f"no run of {comparison} has finished: run it with `rankwatch run-once {comparison}`"
    return (
        f"no finished run of {comparison} has the slot {format_second(slot)}: choose a slot from "
        f"`rankwatch runs {comparison}`"
    )


def _items_shown(run: FinishedRun, users: Sequence[Evidence]) -> frozenset[str]:
    from monitor.model.runs import items_of

    items = items_of(users)
    if run.unpaired is None:
        return items
    return items.union(exposed.item for exposed in run.unpaired.items)


def print_run(
    run: FinishedRun, titles: Mapping[str, str], same_lists_since: datetime | None = None
) -> None:
    """Print a run, with the titles of its items.

    ``same_lists_since`` is the slot of the previous run if that run had the same lists.
    """
    from monitor.measures.presentation import arm_table, explanation_tables, explanation_title
    from monitor.measures.unpaired_presentation import difference_tables
    from monitor.texts.run_notes import write_run_notes
    from monitor.texts.unpaired import ARM_GAPS_EXPLAINED, write_warning

    explanation = run.explanation
    compared = f"{run.paired or 0:,} of {run.asked or 0:,} users compared"
    print_line(f"{run.comparison}  slot {format_second(run.slot)}  {run.status}  {compared}")
    if run.reason:
        print_line(run.reason)
    for note in write_run_notes(run, same_lists_since):
        print_line(note)
    if explanation is not None:
        print_line(f"{explanation_title(explanation)}: {explanation.sentence}")
    warning = write_warning(run.status, is_split_off=run.is_split_off)
    if run.unpaired is None:
        _print_warning(warning)
        columns = "segment metric mean> standard_error> p05> p50> n> by_chance>"
        rows = [_summary_dict(run, summary) | dict(summary.statistics) for summary in run.summaries]
        print_objects(rows, columns, as_json=False)
        if run.k is not None and run.catalogue_size is not None:
            lists = f"two random lists of {run.k:,} out of {run.catalogue_size:,} items"
            print_line(f"by chance: {lists}")
    else:
        _print_gaps(run, run.unpaired, warning)
    tables = explanation_tables(explanation) if explanation else ()
    if run.unpaired is not None:
        tables = (*tables, *difference_tables(run.unpaired, titles, _MOST_ITEMS))
    for table in tables:
        print_line()
        _print_warning(warning)
        print_table(table.columns, table.rows, title=table.title)
    if run.arm_scores:
        print_line()
        _print_warning(warning)
        of_arms = arm_table(run.arm_scores, run.unpaired.arm_gaps if run.unpaired else ())
        print_table(of_arms.columns, of_arms.rows)
        if run.unpaired is not None:
            print_line(ARM_GAPS_EXPLAINED)


def _print_warning(warning: str) -> None:
    if warning:
        print_line(warning)


def _print_gaps(run: FinishedRun, results: UnpairedResults, warning: str) -> None:
    """Print the users of both arms, and how far they moved from their pre-test lists."""
    from monitor.measures.unpaired_presentation import (
        GAP_COLUMNS,
        gap_rows,
        outcome_table,
        user_table,
    )
    from monitor.texts.unpaired import (
        GAPS_EXPLAINED,
        LIMIT_OF_SELF_GAPS,
        write_faulty_lists,
        write_outcomes,
        write_split,
    )

    users = user_table(results)
    print_line()
    print_table(users.columns, users.rows)
    if run.coverage is not None:
        for line in write_faulty_lists(run.coverage.all):
            print_line(line)
    for line in write_split(results):
        print_line(line)
    if results.outcomes:
        outcomes = outcome_table(results)
        print_line()
        _print_warning(warning)
        print_table(outcomes.columns, outcomes.rows)
    for line in write_outcomes(results):
        print_line(line)
    print_line()
    _print_warning(warning)
    print_table(GAP_COLUMNS, gap_rows(run.summaries))
    print_line(GAPS_EXPLAINED)
    print_line(LIMIT_OF_SELF_GAPS)


def _summary_dict(run: Run, summary: Summary) -> dict[str, Any]:
    from monitor.measures.presentation import score_by_chance

    by_chance = score_by_chance(summary.metric, run)
    return summary_dict(summary) | {"by_chance": by_chance}
