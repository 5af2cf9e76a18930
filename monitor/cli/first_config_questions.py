"""What `init` asks about the lists of a first configuration."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import typer

from monitor.cli.output import INTERRUPTED_EXIT, print_line
from monitor.model.column_names import ITEM_COLUMNS, RANK_COLUMNS, USER_COLUMNS
from monitor.model.immutable import immutable

ListColumnNames = Mapping[str, Sequence[str] | None]
"""Possible names of the columns ``user``, ``items``, ``item``, ``rank`` and ``scores``.

None means the usual names, or no scores.
"""


class ListSource(StrEnum):
    """Where the lists are."""

    FILES = "files"
    HTTP = "http"
    SQL = "sql"
    REDIS = "redis"
    LOG = "log"


@immutable
class SourceQuestions:
    """What `init` asks about one kind of lists."""

    label: str
    every: str
    by_option: Mapping[str, tuple[str, str]]  # a question, and its default answer


SOURCE_QUESTIONS: Mapping[ListSource, SourceQuestions] = {
    ListSource.FILES: SourceQuestions(
        label="files: two files, CSV, Parquet or JSON lines",
        every="1d",
        by_option={
            "baseline": ("File with the lists in use", "baseline.csv"),
            "candidate": ("File with the lists on trial", "candidate.csv"),
        },
    ),
    ListSource.HTTP: SourceQuestions(
        label="http: two services that answer with a list for a user",
        every="1h",
        by_option={
            "baseline": (
                "URL of the service in use, with {user}",
                "http://localhost:8001/recommend/{user}?n={k}",
            ),
            "candidate": (
                "URL of the service on trial, with {user}",
                "http://localhost:8002/recommend/{user}?n={k}",
            ),
            "items": ("JMESPath to the item ids in an answer", "@"),
            "users": ("File with the users to ask for", "users.csv"),
        },
    ),
    ListSource.SQL: SourceQuestions(
        label="sql: two tables of a database",
        every="1d",
        by_option={
            "server": ("Address of the database", "sqlite:///lists.db"),
            "baseline": ("Table with the lists in use", "baseline"),
            "candidate": ("Table with the lists on trial", "candidate"),
        },
    ),
    ListSource.REDIS: SourceQuestions(
        label="redis: two sets of keys in Redis",
        every="1h",
        by_option={
            "server": ("Address of Redis", "redis://localhost:6379/0"),
            "baseline": ("Keys of the lists in use, with {user}", "recs:v1:{user}"),
            "candidate": ("Keys of the lists on trial", "recs:v2:{user}"),
        },
    ),
    ListSource.LOG: SourceQuestions(
        label="log: one log of an A/B test, in which each user is served by one arm only",
        every="1d",
        by_option={
            "unpaired": ("File with the log", "served.parquet"),
            "arms": ("Values of both arms in the log, the baseline's first", "baseline,candidate"),
            "before": ("Date on which the test began", ""),
        },
    ),
}


def ask_person(question: str, default: str) -> str:
    """Return a person's answer to the question."""
    try:
        return str(typer.prompt(question, default=default)).strip()
    except typer.Abort:  # Ctrl-C or the end of the input
        raise typer.Exit(INTERRUPTED_EXIT) from None


def ask_kind() -> ListSource:
    """Ask a person where the lists are. Raises BadParameter for an unknown kind."""
    kinds = list(ListSource)
    print_line("Where are the lists?")
    for number, questions in enumerate(SOURCE_QUESTIONS.values(), start=1):
        print_line(f"  {number}  {questions.label}")
    answer = ask_person("Number or name", "1")
    if answer.isdecimal() and 1 <= int(answer) <= len(kinds):
        return kinds[int(answer) - 1]
    try:
        return ListSource(answer.lower())
    except ValueError:
        raise typer.BadParameter(
            f"{answer!r} is no kind of lists: choose {', '.join(kinds)}"
        ) from None


def ask_columns() -> ListColumnNames:
    """Ask a person for the columns of a file whose columns have unusual names."""
    columns: ListColumnNames = dict.fromkeys(("items", "item", "rank", "scores"))
    user = ask_person("Column with the user", USER_COLUMNS[0])
    items = ask_person("Column with the list of items. Empty if a row has one item", "")
    if items:
        return {**columns, "user": [user], "items": [items]}
    item = ask_person("Column with the item", ITEM_COLUMNS[0])
    rank = ask_person("Column with the item's rank", RANK_COLUMNS[0])
    return {**columns, "user": [user], "item": [item], "rank": [rank]}
