"""The arguments and options of the command `compare`, in the order of its help."""

from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli.completion import complete_metrics


def column_option(text: str) -> Any:  # noqa: ANN401 - as in typer
    """Return an option that takes the name of a column. ``text`` is its help."""
    return typer.Option(metavar="COLUMN", help=text)


Baseline = Annotated[
    Path | None, typer.Argument(help="Baseline lists: Parquet, CSV, TSV or JSONL.")
]
Candidate = Annotated[
    Path | None, typer.Argument(help="Candidate lists: Parquet, CSV, TSV or JSONL.")
]
TopK = Annotated[
    int, typer.Option("-k", min=1, max=10_000, help="Compare the first k places of each list.")
]
MetricOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        autocompletion=complete_metrics,
        help="A metric, from the list that rankwatch metrics prints. May be repeated.",
    ),
]
By = Annotated[
    str | None,
    column_option(
        "Also compare by segment. The segments are the values of this column in the --users file, "
        "or in the baseline's file."
    ),
]
Worst = Annotated[
    int,
    typer.Option(
        min=0,
        max=1000,
        help="Show both lists of N users: those with the least similar lists, by the first metric.",
    ),
]
UserColumn = Annotated[
    list[str] | None,
    column_option(
        "Column with the user. Default: its usual names. If the files have different columns, "
        "repeat this option, --items, --item or --rank."
    ),
]
ItemsColumn = Annotated[
    list[str] | None, column_option("Column with the list of items. Default: items.")
]
ItemColumn = Annotated[
    list[str] | None,
    column_option("Column with one item in each row. Default: its usual names."),
]
RankColumn = Annotated[
    list[str] | None,
    column_option(
        "Column with the item's rank. The lowest rank is the best. Default: its usual names."
    ),
]
InOrder = Annotated[
    bool,
    typer.Option("--in-order", help="Treat each user's rows as sorted, with the best item first."),
]
ScoresColumn = Annotated[
    str | None,
    column_option("Column with the models' scores. Equal scores are ties. Can replace --rank."),
]
NoItemOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ID", help="Value that pads short lists, such as -1. May be repeated."),
]
MaxUnreadableOption = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="SHARE",
        help="Largest accepted share of unreadable rows. Default: 0.01.",
    ),
]
ItemIds = Annotated[
    str | None,
    typer.Option(
        "--item-ids",
        metavar="FORMS",
        help="Steps that normalize item ids before the comparison, such as '[strip, int]'.",
    ),
]
UserIds = Annotated[
    str | None,
    typer.Option(
        "--user-ids", metavar="FORMS", help="Steps that normalize user ids before the comparison."
    ),
]
UsersFile = Annotated[
    Path | None,
    typer.Option(help="File with the users to compare."),
]
TitlesFile = Annotated[
    Path | None,
    typer.Option(
        help="File with titles of items. The file needs a column named title, and a column named "
        "item_id or item."
    ),
]
Catalogue = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of items that can be recommended. The mean score of random lists depends on "
        "this number. Default: the number of listed items.",
    ),
]
RetrainedFile = Annotated[
    Path | None,
    typer.Option(
        help="Lists of a second training of the baseline's model. The result says whether the "
        "candidate is farther from the baseline than the second training is. The rows "
        "floor(METRIC) compare the second training with the baseline.",
    ),
]
UnpairedLog = Annotated[
    Path | None,
    typer.Option(
        help="Log of an A/B test, in place of two files. Each user is served by one arm only. "
        "Requires --arms and --before."
    ),
]
ArmValues = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="With --unpaired: the values that the column of arms contains for the baseline and "
        "for the candidate.",
    ),
]
Before = Annotated[
    str | None,
    typer.Option(
        metavar="INSTANT",
        help="With --unpaired: when the test began. The last list up to this time is the user's "
        "list before the test.",
    ),
]
ArmColumnOption = Annotated[
    str | None,
    column_option("With --unpaired: column with the arm."),
]
TimeColumn = Annotated[
    str | None,
    column_option("With --unpaired: column with the time."),
]
SplitOption = Annotated[
    float,
    typer.Option(
        min=0.01, max=0.99, help="With --unpaired: the planned share of users in the baseline."
    ),
]
Outcomes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="With --unpaired: column with an outcome of each request, such as clicks. May be "
        "repeated.",
    ),
]
