"""The command `interleaved`. It says which arm users prefer, by a log of interleaved lists."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.file_columns import file_options, pick_column
from monitor.cli.output import print_json, print_line, print_table
from monitor.cli.parameters import AsJson, parse_pair
from monitor.model.errors import InputError, SourceError

_TEAM_COLUMNS = ("team", "arm", "variant")
_CLICK_COLUMNS = ("click", "clicked", "clicks")


def interleaved(
    log: Annotated[
        Path,
        typer.Argument(
            help="Parquet, CSV or JSON lines with a user, a team and a click in each row."
        ),
    ],
    *,
    teams: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="The two values in the column with the team: first the value for the baseline, "
            "and then the value for the candidate.",
        ),
    ] = "baseline,candidate",
    user: Annotated[str | None, typer.Option(help="Column with the user.")] = None,
    team: Annotated[
        str | None, typer.Option(help="Column with the team that chose the item.")
    ] = None,
    click: Annotated[
        str | None, typer.Option(help="Column with the number of clicks, or with true or false.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find out which arm users prefer, from interleaved lists.

    Team-draft interleaving combines the lists of both arms into one list. Each row of the log is an
    item in such a list, with the team that chose the item. A user prefers the arm whose items the
    user clicked more often. The command compares users and not clicks, because the clicks of one
    user are not independent. You can repeat the command while the log grows, because the confidence
    interval stays valid.
    """
    from monitor.model.column_names import USER_COLUMNS
    from monitor.service.analysis.interleaved_log import compare_teams
    from monitor.sources.file import FileUsersOptions
    from monitor.texts.unpaired import write_preference

    pair = parse_pair("--teams", teams)
    options = file_options(FileUsersOptions, log, {"user": user or pick_column(log, USER_COLUMNS)})
    team = team or pick_column(log, _TEAM_COLUMNS)
    click = click or pick_column(log, _CLICK_COLUMNS)
    try:
        preference = compare_teams(options, team, click, pair)
    except SourceError as error:
        raise InputError(error.shown) from None
    ties = preference.users - preference.for_baseline - preference.for_candidate
    if as_json:
        print_json({**asdict(preference), "for_neither": ties})
        return
    rows = (
        (f"the baseline ({pair[0]})", f"{preference.for_baseline:,}"),
        (f"the candidate ({pair[1]})", f"{preference.for_candidate:,}"),
        ("both equally", f"{ties:,}"),
    )
    print_table(("users who prefer", "users>"), rows)
    print_line(write_preference(preference.mean, preference.low, preference.high, preference.users))
