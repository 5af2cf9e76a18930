"""The option `compare --unpaired`. It compares the arms of an A/B test by a log."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from monitor.cli.file_columns import columns_of, pick_column
from monitor.cli.output import SOURCE_EXIT, print_evidence, print_json, print_line, summary_dict
from monitor.cli.parameters import parse_fixed, parse_pair
from monitor.cli.stored_runs import print_run
from monitor.model.column_names import write_absent
from monitor.model.errors import InputError
from monitor.model.instants import utc_now

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from monitor.measures.metrics import Metric
    from monitor.service.analysis.log_comparison import LoggedTest
    from monitor.sources.file import FileSourceOptions

_ARM_COLUMNS = ("arm", "variant", "bucket", "treatment")
_TIME_COLUMNS = ("time", "at", "ts", "timestamp", "served_at")


def refuse_options(options: Mapping[str, object]) -> None:
    """Raise BadParameter if one of these options is given, because they need two files."""
    refused = [name for name, value in options.items() if value is not None]
    if refused:
        raise typer.BadParameter(f"--unpaired does not go with {', '.join(refused)}: leave it out")


def read_test(  # noqa: PLR0913 - the options of the command
    log: Path,
    arms: str | None,
    before: str | None,
    *,
    arm: str | None,
    time: str | None,
    split: float,
    outcomes: Sequence[str],
) -> LoggedTest:
    """Return the test of the options. Raises BadParameter if one is missing."""
    from monitor.service.analysis.log_comparison import LoggedTest

    if arms is None or before is None:
        raise typer.BadParameter("--unpaired needs --arms A,B and --before DATE: give both")
    return LoggedTest(
        arm=arm or _pick_named(log, "--arm", _ARM_COLUMNS),
        time=time or _pick_named(log, "--time", _TIME_COLUMNS),
        arms=parse_pair("--arms", arms),
        before=parse_fixed("--before", before),
        baseline_share=split,
        outcomes=tuple(outcomes),
    )


def _pick_named(log: Path, option: str, names: Sequence[str]) -> str:
    """Return the column with a usual name. Raises InputError if the log has other columns only."""
    column = pick_column(log, names)
    present = columns_of(log)
    if present and column not in present:
        raise InputError(
            f"{log} has no column {write_absent(names[0], present)}. Name it: {option}"
        )
    return column


def print_log(  # noqa: PLR0913 - the options of the command
    log: FileSourceOptions,
    test: LoggedTest,
    metrics: Sequence[Metric],
    k: int,
    *,
    by: str | None,
    worst: int,
    as_json: bool,
) -> None:
    """Compare the arms of the test by its log, and print the result as a run.

    Exits with code 3 if the run cannot be judged, for example because the split is off.
    """
    from monitor.model.runs import RunStatus
    from monitor.service.analysis.log_comparison import as_finished_run, compare_log
    from monitor.statistics.unpaired.split import SPLIT_OFF
    from monitor.texts.unpaired import ONE_RUN, OTHER_SPLIT, write_unusable

    names = [str(metric) for metric in metrics]
    result = compare_log(log, test, names, k, by=by, worst=worst, now=utc_now())
    run = as_finished_run(result)
    users = [example for example in result.evidence if example.kind == "worst"][:worst]
    if as_json:
        summaries = [summary_dict(summary) for summary in run.summaries]
        print_json({**asdict(run), "summaries": summaries, "worst": users})
    else:
        print_run(run, {})
        print_evidence(users, {})
        print_line()
        if run.unpaired is not None and run.unpaired.log_e >= SPLIT_OFF:
            print_line(OTHER_SPLIT)
        print_line(ONE_RUN if run.status is RunStatus.OK else write_unusable(run.reasons[0]))
    if run.status is not RunStatus.OK:
        raise typer.Exit(SOURCE_EXIT)
