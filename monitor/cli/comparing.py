"""The command `compare`: two files, no database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import number, print_json, print_table, say
from monitor.cli.parameters import AsJson
from monitor.errors import InputError

if TYPE_CHECKING:
    from monitor.model import CoverageRow, Summary
    from monitor.sources.file import FileOptions

DEFAULT_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")


def compare(  # noqa: PLR0913 - one a flag
    baseline: Annotated[Path, typer.Argument(help="Baseline lists: Parquet, CSV or JSONL.")],
    candidate: Annotated[Path, typer.Argument(help="Candidate lists: Parquet, CSV or JSONL.")],
    *,
    k: Annotated[int, typer.Option("-k", min=1, max=10_000, help="Compare the top k.")] = 10,
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="A measure; may be given again.")] = None,
    user: Annotated[str, typer.Option(help="Column with the user.")] = "user_id",
    items: Annotated[str, typer.Option(help="Column with the list of items.")] = "items",
    item: Annotated[str | None, typer.Option(help="Column with one item a row; goes with --rank.")] = None,
    rank: Annotated[str | None, typer.Option(help="Column with the item's rank, best first.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the lists that two files hold for the same users."""
    from monitor.service.looking import compare_files

    is_long = item is not None or rank is not None
    columns = {"user": user, **({"item": item, "rank": rank} if is_long else {"items": items})}
    arms = [_options(path, columns) for path in (baseline, candidate)]
    found = compare_files(arms[0], arms[1], metrics=metric or DEFAULT_METRICS, k=k)
    if found.troubles:
        raise InputError("; ".join(found.troubles))
    coverage = found.coverage.all
    if as_json:
        print_json(_as_dict(coverage, found.summaries, k))
        return
    reasons = ", ".join(f"{count:,} {reason} in {arm}" for (arm, reason), count in coverage.reasons.items())
    say(f"{coverage.paired:,} of {coverage.asked:,} users compared at k={k}" + (f" ({reasons})" if reasons else ""))
    print_table(
        ("metric", "mean>", "std.error>", "p05>", "median>", "p95>", "users>", "undefined>"),
        (_row(summary) for summary in found.summaries),
    )


def _options(path: Path, columns: dict[str, str | None]) -> FileOptions:
    from pydantic import ValidationError

    from monitor.sources.file import FileOptions

    try:
        return FileOptions.model_validate({"path": str(path), **{key: value for key, value in columns.items() if value}})
    except ValidationError as error:
        problems = "; ".join(str(each["msg"]).removeprefix("Value error, ") for each in error.errors(include_input=False))
        msg = f"{path}: {problems}"
        raise InputError(msg) from None


def _row(summary: Summary) -> tuple[str, ...]:
    values = (summary.mean, summary.standard_error, *(summary.value(name) for name in ("p05", "p50", "p95")))
    return (summary.metric, *(number(value) for value in values), f"{summary.n:,}", f"{summary.n_undefined:,}")


def _as_dict(coverage: CoverageRow, summaries: tuple[Summary, ...], k: int) -> dict[str, object]:
    return {
        "k": k,
        "users": coverage.asked,
        "paired": coverage.paired,
        "coverage": {f"{arm}.{reason}": count for (arm, reason), count in coverage.reasons.items()},
        "metrics": {
            summary.metric: {
                "mean": summary.mean,
                "standard_error": summary.standard_error,
                "n": summary.n,
                "n_undefined": summary.n_undefined,
                **summary.statistics,
            }
            for summary in summaries
        },
    }
