"""The command `init`. It writes a short configuration that works at once, or the complete one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import compare_options
from monitor.cli.compare_log import read_test, refuse_options
from monitor.cli.completion import DEFAULT_CONFIG
from monitor.cli.config_file import try_config
from monitor.cli.file_columns import find_file_problem
from monitor.cli.first_config_questions import (
    SOURCE_QUESTIONS,
    ListSource,
    ask_kind,
    ask_person,
)
from monitor.cli.first_config_sources import FirstLists, write_yaml
from monitor.cli.output import SOURCE_EXIT, print_line
from monitor.cli.parameters import Config
from monitor.model.errors import ConfigError
from monitor.texts.first_steps import write_first_config, write_unusable_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHORT_CONFIG = """\
# rankwatch compares the lists of two recommenders on a schedule, and alerts when they drift apart.
# `rankwatch check` tries this file. `rankwatch init --full` writes all settings with comments.
database: sqlite:///rankwatch.db # runs, scores and the states of alerts

comparisons:
  - name: {name}
    every: {every} # or a cron expression
    k: 10 # length of the compared lists
{lists}    default_rules: true # alerts that learn from five runs what is normal here
    # labels: {{owner: recs team, contact: "#recs-oncall"}} # messages say whom to call
# To send alerts, add receivers: Slack, mail and others are in the file of `rankwatch init --full`.
"""

_Target = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", help="File to write. Default: the file that you set with --config."
    ),
]
_Kind = Annotated[
    ListSource | None,
    typer.Option(metavar="KIND", help="Where the lists are: files, http, sql, redis or log."),
]
_Baseline = Annotated[
    str | None,
    typer.Option(metavar="LISTS", help="The baseline's lists: a file, URL, table or key."),
]
_Candidate = Annotated[
    str | None,
    typer.Option(metavar="LISTS", help="The candidate's lists: a file, URL, table or key."),
]
_Users = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="File with the users whose lists are requested. Required with http.",
    ),
]
_Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Address of the database, for sql and redis. Write the password as ${NAME}.",
    ),
]
_Retrained = Annotated[
    str | None,
    typer.Option(
        metavar="LISTS",
        help="Lists of a second training of the baseline's model, to measure the noise floor.",
    ),
]
_Items = Annotated[
    list[str] | None,
    compare_options.column_option(
        "Column with the list of items. For http: JMESPath to the ids in an answer."
    ),
]
_Name = Annotated[str, typer.Option(help="Name of the comparison.")]
_Minimal = Annotated[
    bool, typer.Option("--minimal", help="Write a short file, and ask no questions.")
]
_Full = Annotated[
    bool,
    typer.Option("--full", help="Write a long file, which contains all settings and comments."),
]
_Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


def init(  # noqa: PLR0913 - the command's options
    *,
    path: _Target = None,
    kind: _Kind = None,
    baseline: _Baseline = None,
    candidate: _Candidate = None,
    users: _Users = None,
    server: _Server = None,
    retrained: _Retrained = None,
    user: compare_options.UserColumn = None,
    items: _Items = None,
    item: compare_options.ItemColumn = None,
    rank: compare_options.RankColumn = None,
    scores: compare_options.ScoresColumn = None,
    in_order: compare_options.InOrder = False,
    unpaired: compare_options.UnpairedLog = None,
    arms: compare_options.ArmValues = None,
    before: compare_options.Before = None,
    arm: compare_options.ArmColumnOption = None,
    time: compare_options.TimeColumn = None,
    split: compare_options.SplitOption = 0.5,
    name: _Name = "feed",
    minimal: _Minimal = False,
    full: _Full = False,
    config: Config = DEFAULT_CONFIG,
    force: _Force = False,
) -> None:
    """Write a first configuration that works without changes.

    In a terminal, the command asks you where the lists are. The command skips questions that you
    have already answered with options. The command finds columns by their usual names, such as
    customer, product and position.

    With files, the command also compares the lists of a few users. The exit code is 3 if no lists
    could be compared.

    For an A/B test in which each user is served by one arm only, use --unpaired with a log, --arms
    and --before.
    """
    target = path or config
    if unpaired is not None:
        paired = {"--kind": kind, "--baseline": baseline, "--candidate": candidate}
        refuse_options({**paired, "--retrained": retrained, "--users": users})
        kind = ListSource.LOG
    is_answered = kind is not None or baseline is not None
    if full and (is_answered or minimal):
        raise typer.BadParameter("--full writes an example: give either --full or other options")
    if not force and target.exists():
        raise ConfigError(f"{target} exists already: use --force to replace it")
    if full:
        _write_full_config(target, force=force)
        return
    reaches_person = _is_terminal() and not (minimal or is_answered)
    if kind is None:
        kind = ask_kind() if reaches_person else ListSource.FILES
    answers = {
        "server": server,
        "baseline": baseline,
        "candidate": candidate,
        "items": items[0] if items else None,
        "users": users,
        "unpaired": None if unpaired is None else str(unpaired),
        "arms": arms,
        "before": before,
    }
    for option, (question, default) in SOURCE_QUESTIONS[kind].by_option.items():
        if not answers[option]:
            answers[option] = ask_person(question, default) if reaches_person else default
    _refuse_unused(
        kind, {"--item": item, "--rank": rank, "--scores": scores, "--in-order": in_order}
    )
    if in_order and (rank or items):
        raise typer.BadParameter("--in-order replaces --rank and --items: leave these out")
    # Without options and answers, the files have default names. They may be written later.
    named_file = users if kind is ListSource.HTTP else baseline or unpaired
    lists = FirstLists(
        kind=kind,
        server=answers["server"],
        columns={
            "user": user,
            "items": items or (answers["items"] and [answers["items"]]),
            "item": item,
            "rank": rank,
            "scores": scores and [scores],
        },
        in_order=in_order,
        must_exist=reaches_person or named_file is not None,
        reaches_person=reaches_person,
    )
    if kind is ListSource.LOG:
        log = str(answers["unpaired"])
        values = (answers["arms"], answers["before"] or None)
        test = read_test(Path(log), *values, arm=arm, time=time, split=split, outcomes=())
        sources = lists.write_test(log, test)
        addresses = [log]
    else:
        pair = (str(answers["baseline"]), str(answers["candidate"]))
        sources = lists.write_pair(*pair, retrained, answers["users"])
        addresses = [*pair] if retrained is None else [*pair, retrained]
    text = _SHORT_CONFIG.format(
        name=write_yaml(name), every=SOURCE_QUESTIONS[kind].every, lists=sources
    )
    _write_config(target, text, force=force)
    are_files = kind in {ListSource.FILES, ListSource.LOG}
    _compare_first_lists(target, addresses if are_files else [])


def _write_full_config(target: Path, *, force: bool) -> None:
    """Write the example with all settings, and print what to do next."""
    from monitor.settings.loader import example_text

    _write_config(target, example_text(), force=force)
    print_line(write_first_config(str(target), _config_option(target)))


def _refuse_unused(kind: ListSource, options: Mapping[str, object]) -> None:
    """Raise BadParameter if one of these options is set, but this kind of lists ignores it."""
    ignored = {
        ListSource.HTTP: tuple(options),
        ListSource.REDIS: tuple(options),
        ListSource.SQL: ("--in-order",),
    }
    for option in ignored.get(kind, ()):
        if options[option]:
            raise typer.BadParameter(f"{option} is not for {kind}: leave it out")


def _compare_first_lists(target: Path, files: Sequence[str]) -> None:
    """Compare the lists of a few users if all files exist, and print what to do next.

    Exits with code 3 if no lists could be compared.
    """
    missing = [file for file in files if find_file_problem(Path(file)) is not None]
    compared = 0
    if files and not missing:
        compared = try_config(target)
        if not compared:
            print_line(write_unusable_config(str(target), _config_option(target)))
            raise typer.Exit(SOURCE_EXIT)
    print_line(
        write_first_config(str(target), _config_option(target), missing=missing, users=compared)
    )


def _config_option(target: Path) -> str:
    """Return the option that names the file in further commands, with a blank before it."""
    return "" if target == DEFAULT_CONFIG else f" --config {target}"


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _write_config(target: Path, text: str, *, force: bool) -> None:
    """Write the file. Raises ConfigError if it exists and ``force`` is False."""
    from monitor.boundary.files import replace_file

    try:
        if force:
            replace_file(target, text.encode())
        else:
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError:
        raise ConfigError(f"{target} exists already: use --force to replace it") from None
    except OSError as error:
        raise ConfigError(f"cannot write {target}: {error.strerror}. Name another file") from None
