"""The command `compare`: two files, no database."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from monitor.cli import output
from monitor.cli.parameters import AsJson
from monitor.errors import InputError, MetricError, SourceError

ALL = "all"

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.metrics import Metric
    from monitor.model.rankings import CoverageRow
    from monitor.model.runs import Evidence
    from monitor.options import Options
    from monitor.service.analysis.file_comparison import ChangeBreakdown, FileComparison
    from monitor.sources.file import FileSourceOptions

    AnyOptions = TypeVar("AnyOptions", bound=Options)

_DRAWN = 6
"""Worst users of a file where --worst names no number."""
_COLUMNS = "metric mean> by_chance> standard_error> p05> p50> p95> n> n_undefined>"
_LEAST_PERCENT = 0.005


def compare_lists(  # noqa: PLR0913 - one a flag
    baseline: Annotated[Path, typer.Argument(help="Baseline lists: Parquet, CSV, TSV or JSONL.")],
    candidate: Annotated[Path, typer.Argument(help="Candidate lists: Parquet, CSV, TSV or JSONL.")],
    *,
    k: Annotated[int, typer.Option("-k", min=1, max=10_000, help="Compare the top k.")] = 10,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="A metric, see rankwatch metrics; may be given again."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Also by segment: this column of the baseline's file, or of the --users file."
        ),
    ] = None,
    worst: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            help="Both lists of the N users that the first metric finds least alike.",
        ),
    ] = 0,
    user: Annotated[str, typer.Option(help="Column with the user.")] = "user_id",
    items: Annotated[str, typer.Option(help="Column with the list of items.")] = "items",
    item: Annotated[
        str | None,
        typer.Option(
            help="Column with one item a row; goes with --rank, --scores, both, or --in-order."
        ),
    ] = None,
    rank: Annotated[
        str | None, typer.Option(help="Column with the item's rank, lowest first.")
    ] = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Each user's rows of one --item stand best first.")
    ] = False,
    scores: Annotated[
        str | None,
        typer.Option(
            help="Column with the models' own scores; equal ones are ties. May stand in for --rank."
        ),
    ] = None,
    no_item: Annotated[
        list[str] | None,
        typer.Option(
            help="A value that only fills up short lists, such as -1; may be given again."
        ),
    ] = None,
    max_unreadable: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Largest share of rows that may be unreadable; default: 0.01."
        ),
    ] = None,
    item_ids: Annotated[
        str | None,
        typer.Option(
            "--item-ids",
            help="How items are spelled before they are compared, such as '[strip, int]'.",
        ),
    ] = None,
    user_ids: Annotated[str | None, typer.Option("--user-ids", help="The same for users.")] = None,
    users: Annotated[
        Path | None,
        typer.Option(help="Compare the users of this file only; it has the --user column."),
    ] = None,
    titles: Annotated[
        Path | None, typer.Option(help="File with titles of items, in columns item_id and title.")
    ] = None,
    catalogue: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many items could be listed, for the score by chance; default: all listed.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write it to this HTML file too, with charts and worst users."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two files of lists for the same users, each with a list a row or an item a row.

    In all, by segment, and side by side for the worst users.
    """
    from monitor.metrics import DEFAULT_METRICS
    from monitor.service.analysis.file_comparison import compare_files
    from monitor.sources.file import FileUsersOptions

    metrics = _read_metrics(metric or DEFAULT_METRICS, has_scores=scores is not None)
    allowed = None if max_unreadable is None else str(max_unreadable)  # 0 is given, too
    forms_of_users = _read_forms("--user-ids", user_ids)
    common = {
        "user": user,
        "scores": scores,
        "no_item": no_item,
        "max_unreadable": allowed,
        "item_ids": _read_forms("--item-ids", item_ids),
        "user_ids": forms_of_users,
    }
    lists = {**common, "item": item, "rank": rank, "in_order": in_order or None}
    shapes = [lists] * bool(item or rank or in_order) + [{**common, "items": items}]
    arms = (_shaped(baseline, shapes), _shaped(candidate, shapes))
    of_users = {"user": user, "user_ids": forms_of_users, "max_unreadable": allowed}
    asked = None if users is None else _options(FileUsersOptions, users, of_users)
    if html is not None:
        output.require_writable(html)
    count = worst or (_DRAWN if html else 0)
    found = compare_files(arms, metrics, k, users=asked, by=by, worst=count, catalogue=catalogue)
    names = {} if titles is None else _read_titles(titles, found.worst)
    if html is not None:
        output.write_page(
            html,
            f"{baseline.name} and {candidate.name}",
            "compared.html",
            [_as_page(found, k, names)],
        )
    found = replace(found, worst=found.worst[:worst])
    if as_json:
        output.print_json({**_as_dict(found, k), "titles": names})
    else:
        _print(found, k, by)
        output.print_evidence(found.worst, names)


def _read_metrics(names: Sequence[str], *, has_scores: bool) -> list[Metric]:
    """Parse the metrics.

    MetricError for one that needs more than these lists, or that is none of two lists.
    """
    from monitor.arm_metrics import ARM_METRICS
    from monitor.metrics import Need, parse

    if arm_wide := next((name for name in names if name.strip() in ARM_METRICS), None):
        msg = (
            f"{arm_wide} measures one arm's lists together and not two lists: name it under "
            "arm_metrics: of a configuration"
        )
        raise MetricError(msg)
    metrics = [parse(name) for name in names]
    for metric in metrics:
        if metric.need is Need.SCORES and not has_scores:
            raise MetricError(f"{metric} needs scores: add --scores COLUMN")
        if metric.need in {Need.ITEM_WEIGHTS, Need.RELEVANCE}:
            msg = (
                f"{metric} needs {metric.need}: name it in a configuration, or measure it with "
                "monitor.compare_many in Python"
            )
            raise MetricError(msg)
    return metrics


def _read_forms(option: str, text: str | None) -> list[object] | None:
    """The forms of ids as a configuration has them, of one alone too.

    InputError for what is no YAML.
    """
    import yaml

    try:
        forms = None if text is None else yaml.safe_load(text)
    except yaml.YAMLError:
        msg = (
            f"{option} {text!r} cannot be read: write forms as in a configuration, such as "
            "'[strip, int]'"
        )
        raise InputError(msg) from None
    return forms if forms is None or isinstance(forms, list) else [forms]


def _read_titles(path: Path, users: Sequence[Evidence]) -> Mapping[str, str]:
    from monitor.model.instants import utc_now
    from monitor.model.runs import items_of
    from monitor.sources.file import FileItemTitlesOptions
    from monitor.sources.file.source import FileTable

    source = FileTable(_options(FileItemTitlesOptions, path, {"item": "item_id", "title": "title"}))
    try:
        return source.titles(utc_now(), items_of(users))
    except SourceError as error:
        raise InputError(error.shown) from None


def _shaped(path: Path, shapes: Sequence[Mapping[str, object]]) -> FileSourceOptions:
    """The options of the first shape whose columns the file has, else of the first: its error says what is missing."""
    from monitor.model.instants import utc_now
    from monitor.sources.file import FileSourceOptions
    from monitor.sources.file.source import FileTable

    possible = [_options(FileSourceOptions, path, shape) for shape in shapes]
    for options in possible if len(possible) > 1 else ():
        with suppress(SourceError):
            next(FileTable(options).batches(utc_now(), options.columns))
            return options
    return possible[0]


def _options(kind: type[AnyOptions], path: Path, columns: Mapping[str, object]) -> AnyOptions:
    from pydantic import ValidationError

    try:
        given = {key: value for key, value in columns.items() if value}
        return kind.model_validate({"path": str(path), "follow_links": True, **given})
    except ValidationError as error:
        problems = "; ".join(
            str(each["msg"]).removeprefix("Value error, ")
            for each in error.errors(include_input=False)
        )
        raise InputError(f"{path}: {problems}") from None


def _print(found: FileComparison, k: int, by: str | None) -> None:
    for line in _who(found, k):
        output.print_line(line)
    output.print_records(_metric_records(found, found.coverage.all), _COLUMNS, as_json=False)
    output.print_line(_chance_line(found))
    output.print_line(_changes_line(found.apart[ALL]))
    for row in found.coverage.rows[1:] if by is not None else ():
        output.print_line()
        title = f"{row.segment}: {row.paired:,} of {row.asked:,} users compared"
        output.print_records(_metric_records(found, row), _COLUMNS, as_json=False, title=title)
        if row.paired:
            output.print_line(_changes_line(found.apart[row.segment]))


def _who(found: FileComparison, k: int) -> list[str]:
    coverage = found.coverage.all
    reasons = ", ".join(
        f"{count:,} {reason} in {arm}" for (arm, reason), count in coverage.reasons.items()
    )
    compared = f"{coverage.paired:,} of {coverage.asked:,} users compared at k={k}"
    return [compared + (f" ({reasons})" if reasons else ""), *found.notes, *_mismatch_lines(found)]


def _mismatch_lines(found: FileComparison) -> list[str]:
    from monitor.texts.id_mismatches import Surface, write_mismatch

    return [write_mismatch(each, Surface.COMMAND) for each in found.id_mismatches]


def _metric_records(found: FileComparison, row: CoverageRow) -> list[dict[str, object]]:
    return [
        {"segment": row.segment, "metric": name, **facts}
        for name, facts in _metric_dicts(found, row).items()
    ]


def _as_page(found: FileComparison, k: int, names: Mapping[str, str]) -> dict[str, object]:
    from monitor.charts.bars import Bar, draw_bars
    from monitor.frames.comparison import draw_pair
    from monitor.frames.summary import draw_distribution

    rows = [record for row in found.coverage.rows for record in _metric_records(found, row)]
    kinds = found.apart[ALL].kinds.items()
    bars = [
        Bar(name=kind.replace("_", " "), amount=share, figure=_percent(share), kind="total")
        for kind, share in kinds
        if share
    ]
    return {
        "lines": (*_who(found, k), _chance_line(found)),
        "changes": [
            (row.segment, _changes_line(found.apart[row.segment]))
            for row in found.coverage.rows
            if row.paired
        ],
        "kinds": draw_bars(bars, label="lists by what became of them"),
        "spreads": [
            draw_distribution(each, found.by_chance[each.metric])
            for each in found.summaries
            if each.segment == ALL
        ],
        "metrics": output.cells_of(rows, f"segment {_COLUMNS}"),
        "users": [
            (
                each.user,
                draw_pair(each.baseline, each.candidate, names, output.scores_line(each)).body,
            )
            for each in found.worst
        ],
    }


def _chance_line(found: FileComparison) -> str:
    if found.length is None:
        return "by chance: unknown, as the lists have no typical length"
    return (
        f"by chance: what unrelated lists would score on average: {found.length} items each, drawn "
        f"at random from a catalogue of {found.catalogue:,}"
    )


def _changes_line(apart: ChangeBreakdown) -> str:
    """The parts of the mean distance from identical lists, and how many lists changed in which way."""
    kinds = ", ".join(
        f"{_percent(share)} {kind.replace('_', ' ')}"
        for kind, share in apart.kinds.items()
        if share
    )
    if apart.parts is None:
        return f"lists: {kinds}"
    parts = {
        "items replaced": apart.parts.membership,
        "order": apart.parts.order,
        "length": apart.parts.length,
    }
    split = ", ".join(f"{name} {output.number(value)}" for name, value in parts.items())
    return (
        f"{apart.metric} is {output.number(apart.parts.whole)} from that of identical lists: "
        f"{split}; lists: {kinds}"
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= _LEAST_PERCENT else "<1%"


def _as_dict(found: FileComparison, k: int) -> dict[str, object]:
    whole, *segments = found.coverage.rows
    return {
        "k": k,
        **_segment_dict(found, whole),
        "catalogue": found.catalogue,
        "typical_length": found.length,
        "segments": {row.segment: _segment_dict(found, row) for row in segments},
        "worst": [
            output.pick(each, "user", "scores", "baseline", "candidate") for each in found.worst
        ],
        "notes": [*found.notes, *_mismatch_lines(found)],
        "id_mismatches": [asdict(each) for each in found.id_mismatches],
    }


def _segment_dict(found: FileComparison, row: CoverageRow) -> dict[str, object]:
    apart = found.apart.get(row.segment)
    split = (
        None
        if apart is None or apart.parts is None
        else output.pick(apart.parts, "membership", "order", "length")
    )
    return {
        "users": row.asked,
        "paired": row.paired,
        "coverage": {f"{arm}.{reason}": count for (arm, reason), count in row.reasons.items()},
        "metrics": _metric_dicts(found, row),
        "apart": None
        if apart is None
        else {"metric": apart.metric, "parts": split, "lists": apart.kinds},
    }


def _metric_dicts(found: FileComparison, row: CoverageRow) -> dict[str, dict[str, object]]:
    return {
        summary.metric: {
            "mean": summary.mean,
            "by_chance": found.by_chance[summary.metric],
            **output.pick(summary, "standard_error", "n", "n_undefined"),
            **summary.statistics,
        }
        for summary in found.summaries
        if summary.segment == row.segment
    }
