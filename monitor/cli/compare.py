"""The command `compare`. It compares two files without a database."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.cli.compare_log import print_log, read_test, refuse_options
from monitor.cli.completion import complete_metrics
from monitor.cli.file_columns import file_options, find_column, list_shapes, shaped
from monitor.cli.output import (
    cells_of,
    number,
    pick,
    print_evidence,
    print_json,
    print_line,
    print_records,
    require_writable,
    scores_line,
    summary_dict,
    write_page,
)
from monitor.cli.parameters import AsJson
from monitor.model.errors import InputError, MetricError, SourceError
from monitor.model.instants import utc_now

ALL = "all"

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.measures.metrics import Metric
    from monitor.model.interpretation import Interpretation
    from monitor.model.rankings import CoverageRow
    from monitor.model.runs import Evidence, Summary
    from monitor.service.analysis.file_comparison import ChangeBreakdown, FileComparison
    from monitor.sources.file import FileUsersOptions

_DRAWN = 6
"""The number of users with the least similar lists that the HTML file shows without --worst."""
_COLUMNS = "metric mean> by_chance> standard_error> p05> p50> p95> n> n_undefined>"
_LEAST_PERCENT = 0.005


def compare_lists(  # noqa: PLR0913 - the command's options
    baseline: Annotated[
        Path | None, typer.Argument(help="Baseline lists: Parquet, CSV, TSV or JSONL.")
    ] = None,
    candidate: Annotated[
        Path | None, typer.Argument(help="Candidate lists: Parquet, CSV, TSV or JSONL.")
    ] = None,
    *,
    k: Annotated[int, typer.Option("-k", min=1, max=10_000, help="Compare the top k.")] = 10,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            autocompletion=complete_metrics,
            help="A metric, see rankwatch metrics. May be repeated.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Also compare by segment. The segments are the values of this column in the "
            "--users file, or in the baseline's file.",
        ),
    ] = None,
    worst: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            help="Show both lists of the N users with the least similar lists by the first metric.",
        ),
    ] = 0,
    user: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with the user. Default: user_id or user."),
    ] = None,
    items: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column with the list of items.")
    ] = "items",
    item: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with one item in each row. Needs --rank, --scores or --in-order. "
            "Default if the file has no column of lists: item_id or item, sorted by rank.",
        ),
    ] = None,
    rank: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column with the item's rank. The lowest rank is the best."
        ),
    ] = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Each user's rows are sorted, best item first.")
    ] = False,
    scores: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with the models' scores. Equal scores are ties. Can replace --rank.",
        ),
    ] = None,
    no_item: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="Value that fills up short lists, such as -1. May be repeated."
        ),
    ] = None,
    max_unreadable: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Largest accepted share of unreadable rows. Default: 0.01.",
        ),
    ] = None,
    item_ids: Annotated[
        str | None,
        typer.Option(
            "--item-ids",
            metavar="FORMS",
            help="How item ids are normalized before the comparison, such as '[strip, int]'.",
        ),
    ] = None,
    user_ids: Annotated[
        str | None,
        typer.Option("--user-ids", metavar="FORMS", help="How user ids are normalized."),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(help="File with the users to compare. It needs the same --user column."),
    ] = None,
    titles: Annotated[
        Path | None,
        typer.Option(help="File with titles of items. Its columns are title, and item_id or item."),
    ] = None,
    catalogue: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of items that can be recommended. The score by chance depends on it. "
            "Default: "
            "the number of listed items.",
        ),
    ] = None,
    retrained: Annotated[
        Path | None,
        typer.Option(
            help="Lists of a second training of the baseline's model. The result says whether the "
            "candidate differs from the baseline more than this training does. The rows "
            "floor(METRIC) compare this training with the baseline.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write an HTML file with charts and the least similar lists."),
    ] = None,
    unpaired: Annotated[
        Path | None,
        typer.Option(
            help="Log of an A/B test, in place of two files. Each user is served by one arm only. "
            "Needs --arms and --before."
        ),
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="With --unpaired: the values of the baseline and of the candidate."
        ),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT",
            help="With --unpaired: when the test began. The last list up to this time is the "
            "user's list before the test.",
        ),
    ] = None,
    arm: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --unpaired: column with the arm."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --unpaired: column with the time."),
    ] = None,
    split: Annotated[
        float,
        typer.Option(
            min=0.01, max=0.99, help="With --unpaired: the planned share of users in the baseline."
        ),
    ] = 0.5,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="With --unpaired: column with an outcome of each request, such as clicks. Can be "
            "repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two files of lists, without a configuration.

    A row of a file has one list or one item. The columns are found by their usual names, such as
    customer, product and position. The last lines say what the result means, and for how many
    users. Both files need lists of the same users. If each user is served by one arm only, use
    --unpaired with a log. For each arm, the command then measures how much the users' lists changed
    since before the test.
    """
    from monitor.measures.metrics import DEFAULT_METRICS
    from monitor.service.analysis.file_comparison import compare_files

    metrics = _read_metrics(metric or DEFAULT_METRICS, has_scores=scores is not None)
    most_unreadable = None
    if max_unreadable is not None:
        most_unreadable = str(max_unreadable)  # as text, because `_options` drops the number 0
    common: dict[str, object] = {
        "scores": scores,
        "no_item": no_item,
        "max_unreadable": most_unreadable,
        "item_ids": _read_forms("--item-ids", item_ids),
        "user_ids": _read_forms("--user-ids", user_ids),
    }
    shapes = list_shapes(common, items)
    if item or rank or in_order:
        long_shape = {**common, "item": item, "rank": rank, "in_order": in_order}
        shapes = [long_shape, {**common, "items": items}]
    if unpaired is not None:
        refused = {"BASELINE": baseline, "--users": users, "--catalogue": catalogue}
        refuse_options({**refused, "--retrained": retrained, "--html": html, "--titles": titles})
        test = read_test(
            unpaired, arms, before, arm=arm, time=time, split=split, outcomes=outcome or ()
        )
        print_log(
            unpaired,
            test,
            metrics,
            k,
            user=user,
            shapes=shapes,
            by=by,
            worst=worst,
            as_json=as_json,
        )
        return
    baseline, candidate = _require_files(baseline, candidate)
    files = (
        shaped(baseline, user, shapes, is_required=True),
        shaped(candidate, user, shapes, is_required=True),
    )
    selected_users = None
    if users is not None:
        selected_users = _users_options(users, user, common)
    count = worst
    if html is not None:
        require_writable(html)
        count = worst or _DRAWN
    result = compare_files(
        files,
        metrics,
        k,
        users=selected_users,
        by=by,
        worst=count,
        catalogue=catalogue,
    )
    trainings = None
    if retrained is not None:
        trained_arms = (files[0], shaped(retrained, user, shapes, is_required=True))
        trainings = compare_files(trained_arms, metrics, k, users=selected_users, by=by)
        result = _with_notes(result, trainings)
    meanings = _interpret(result, metrics[0], trainings)
    lines = _meaning_lines(result, meanings, by)
    item_titles = _read_titles(titles, result.worst)
    if html is not None:
        page = _as_page(result, trainings, k, item_titles, lines)
        write_page(html, f"{baseline.name} and {candidate.name}", "compared.html", [page])
    result = replace(result, worst=result.worst[:worst])
    if as_json:
        print_json(_as_dict(result, trainings, k, meanings) | {"titles": item_titles})
        return
    _print(result, trainings, k, by)
    print_evidence(result.worst, item_titles)
    print_line()
    for line in lines:
        print_line(line)


def _require_files(baseline: Path | None, candidate: Path | None) -> tuple[Path, Path]:
    if baseline is None or candidate is None:
        raise typer.BadParameter("give two files, the baseline's first, or a log with --unpaired")
    return baseline, candidate


def _users_options(path: Path, user: str | None, common: Mapping[str, object]) -> FileUsersOptions:
    """Return the options of the file with the users to compare."""
    from monitor.model.column_names import USER_COLUMNS
    from monitor.sources.file import FileUsersOptions

    columns = {
        "user_ids": common["user_ids"],
        "max_unreadable": common["max_unreadable"],
        "user": user or find_column(path, USER_COLUMNS),
    }
    return file_options(FileUsersOptions, path, columns)


def _interpret(
    result: FileComparison, metric: Metric, trainings: FileComparison | None
) -> dict[str, Interpretation]:
    """Interpret the metric in each segment for which that is possible."""
    from monitor.service.analysis.interpretation import interpret, measure_spread

    name = str(metric)
    floors = {}
    if trainings is not None:
        floors = {each.segment: each for each in trainings.summaries if each.metric == name}
    meanings = {}
    for summary in result.summaries:
        if summary.metric != name:
            continue
        meaning = interpret(
            summary,
            by_chance=result.by_chance[name],
            identical=metric.identical,
            trainings=floors.get(summary.segment),
        )
        if meaning is not None:
            meanings[summary.segment] = meaning
    overall = meanings.get(ALL)
    if overall is None or result.distances is None:
        return meanings
    usual = None
    if trainings is not None and overall.trainings is not None and overall.trainings.is_exceeded:
        usual = trainings.distances
    meanings[ALL] = replace(overall, spread=measure_spread(result.distances, usual))
    return meanings


def _meaning_dict(meaning: Interpretation | None) -> dict[str, object] | None:
    if meaning is None:
        return None
    return {**asdict(meaning), "closeness": meaning.closeness}


def _meaning_lines(
    result: FileComparison, meanings: Mapping[str, Interpretation], by: str | None
) -> list[str]:
    """Say what the result means, who gets one and the same list, and how segments differ."""
    from monitor.service.analysis.interpretation import find_shared
    from monitor.texts.interpretation import write_interpretation, write_segments, write_shared

    lines: list[str] = []
    if ALL in meanings:
        lines += write_interpretation(meanings[ALL], has_segments=by is not None)
    shared = find_shared(result.shared)
    segments = {segment: meanings[segment] for segment in meanings if segment != ALL}
    return [*lines, *write_shared(shared), *write_segments(segments, shared)]


def _read_metrics(names: Sequence[str], *, has_scores: bool) -> list[Metric]:
    """Parse the metrics. Raises MetricError if a metric needs data that the files do not have."""
    from monitor.measures.arm_metrics import ARM_METRICS
    from monitor.measures.metrics import Need, parse
    from monitor.texts.interpretation import write_arm_metric

    metrics = []
    for name in names:
        if name.strip() in ARM_METRICS:
            raise MetricError(write_arm_metric(name))
        metric = parse(name)
        if metric.need is Need.SCORES and not has_scores:
            raise MetricError(f"{metric} needs scores: add --scores COLUMN")
        if metric.need in {Need.ITEM_WEIGHTS, Need.RELEVANCE}:
            raise MetricError(
                f"{metric} needs {metric.need}: use a configuration, or measure it with "
                "monitor.compare_many in Python"
            )
        metrics.append(metric)
    return metrics


def _read_forms(option: str, forms: str | None) -> list[object] | None:
    """Parse how ids are normalized: one form or a list of forms in YAML.

    Raises InputError if the text is not YAML.
    """
    import yaml

    if forms is None:
        return None
    try:
        parsed = yaml.safe_load(forms)
    except yaml.YAMLError:
        raise InputError(
            f"{option} {forms!r} is not YAML: write forms as in a configuration, such as "
            "'[strip, int]'"
        ) from None
    if parsed is None or isinstance(parsed, list):
        return parsed
    return [parsed]


def _with_notes(result: FileComparison, trainings: FileComparison) -> FileComparison:
    """Add the notes on the second training that the result does not have."""
    notes = dict.fromkeys((*result.notes, *trainings.notes))
    return replace(result, notes=tuple(notes))


def _read_titles(path: Path | None, users: Sequence[Evidence]) -> Mapping[str, str]:
    from monitor.model.column_names import ITEM_COLUMNS
    from monitor.model.runs import items_of
    from monitor.sources.file import FileItemTitlesOptions
    from monitor.sources.file.source import FileTable

    if path is None:
        return {}
    item = find_column(path, ITEM_COLUMNS)
    source = FileTable(file_options(FileItemTitlesOptions, path, {"item": item, "title": "title"}))
    try:
        return source.titles(utc_now(), items_of(users))
    except SourceError as error:
        raise InputError(error.shown) from None


def _print(
    result: FileComparison, trainings: FileComparison | None, k: int, by: str | None
) -> None:
    for line in _coverage_lines(result, k):
        print_line(line)
    records = _metric_records(result, trainings, result.coverage.all)
    print_records(records, _COLUMNS, as_json=False)
    print_line(_chance_line(result))
    print_line(_changes_line(result.apart[ALL]))
    if trainings is not None:
        print_line(_retraining_line(trainings.apart[ALL]))
    if by is None:
        return
    for row in result.coverage.rows[1:]:
        print_line()
        title = f"{row.segment}: {row.paired:,} of {row.asked:,} users compared"
        records = _metric_records(result, trainings, row)
        print_records(records, _COLUMNS, as_json=False, title=title)
        if row.paired:
            print_line(_changes_line(result.apart[row.segment]))
        if trainings is not None and row.segment in trainings.apart:
            print_line(_retraining_line(trainings.apart[row.segment]))


def _coverage_lines(result: FileComparison, k: int) -> list[str]:
    coverage = result.coverage.all
    compared = f"{coverage.paired:,} of {coverage.asked:,} users compared at k={k}"
    reasons = []
    for (arm, reason), count in coverage.users_by_reason.items():
        reasons.append(f"{count:,} {reason} in {arm}")
    if reasons:
        compared += f" ({', '.join(reasons)})"
    return [compared, *result.notes, *_mismatch_lines(result)]


def _mismatch_lines(result: FileComparison) -> list[str]:
    from monitor.texts.id_mismatches import Surface, write_mismatch

    return [write_mismatch(each, Surface.COMMAND) for each in result.id_mismatches]


def _metric_records(
    result: FileComparison, trainings: FileComparison | None, row: CoverageRow
) -> list[dict[str, object]]:
    return [each | each["statistics"] for each in _summary_dicts(result, trainings, row)]


def _as_page(
    result: FileComparison,
    trainings: FileComparison | None,
    k: int,
    titles: Mapping[str, str],
    meaning_lines: Sequence[str],
) -> dict[str, object]:
    from monitor.charts.bars import Bar, draw_bars
    from monitor.measures.frames.comparison import draw_pair
    from monitor.measures.frames.summary import draw_distribution

    records = []
    changes = []
    for row in result.coverage.rows:
        records += _metric_records(result, trainings, row)
        if row.paired:
            changes.append((row.segment, _changes_line(result.apart[row.segment])))
    if trainings is not None:
        changes.append((ALL, _retraining_line(trainings.apart[ALL])))
    bars = []
    for kind, share in result.apart[ALL].shares.items():
        if share:
            name = kind.replace("_", " ")
            bars.append(Bar(name=name, amount=share, figure=_percent(share), kind="total"))
    spreads = []
    for summary in result.summaries:
        if summary.segment == ALL:
            chance = result.by_chance[summary.metric]
            spreads.append(draw_distribution(summary, chance))
            floor = _find_floor(trainings, summary)
            if floor is not None:
                spreads.append(draw_distribution(floor, chance))
    users = []
    for each in result.worst:
        pair = draw_pair(each.baseline, each.candidate, titles, scores_line(each))
        users.append((each.user, pair.body))
    return {
        "lines": (
            *_coverage_lines(result, k),
            _chance_line(result),
            *meaning_lines,
        ),
        "changes": changes,
        "kinds": draw_bars(bars, label="lists by kind of change"),
        "spreads": spreads,
        "metrics": cells_of(records, f"segment {_COLUMNS}"),
        "users": users,
    }


def _chance_line(result: FileComparison) -> str:
    if result.length is None:
        return "by chance: the score is unknown, because the lists have no typical length"
    return (
        f"by chance: the mean score of two lists of {result.length} items, drawn at "
        f"random from a catalogue of {result.catalogue_size:,} items"
    )


def _changes_line(breakdown: ChangeBreakdown) -> str:
    """Write the parts of the mean distance from identical lists, and the share of each change."""
    shares = []
    for kind, share in breakdown.shares.items():
        if share:
            shares.append(f"{_percent(share)} {kind.replace('_', ' ')}")
    kinds = f"lists: {', '.join(shares)}"
    parts = breakdown.parts
    if parts is None:
        return kinds
    return (
        f"{breakdown.metric} is {number(parts.whole)} away from its value for identical lists: "
        f"items replaced {number(parts.membership)}, order {number(parts.order)}, "
        f"length {number(parts.length)}; {kinds}"
    )


def _retraining_line(breakdown: ChangeBreakdown) -> str:
    return f"retraining: {_changes_line(breakdown)}"


def _percent(share: float) -> str:
    if share < _LEAST_PERCENT:
        return "<1%"
    return f"{share:.0%}"


def _as_dict(
    result: FileComparison,
    trainings: FileComparison | None,
    k: int,
    meanings: Mapping[str, Interpretation],
) -> dict[str, object]:
    all_users, *segments = [
        _segment_dict(result, trainings, row, meanings) for row in result.coverage.rows
    ]
    return {
        "k": k,
        **all_users,
        "catalogue_size": result.catalogue_size,
        "typical_length": result.length,
        "by_segment": segments,
        "worst": result.worst,
        "notes": [*result.notes, *_mismatch_lines(result)],
        "id_mismatches": result.id_mismatches,
    }


def _segment_dict(
    result: FileComparison,
    trainings: FileComparison | None,
    row: CoverageRow,
    meanings: Mapping[str, Interpretation],
) -> dict[str, object]:
    floor_apart = None
    if trainings is not None:
        floor_apart = _apart_dict(trainings, row.segment)
    return {
        **asdict(row),
        "summaries": _summary_dicts(result, trainings, row),
        "apart": _apart_dict(result, row.segment),
        "floor_apart": floor_apart,
        "interpretation": _meaning_dict(meanings.get(row.segment)),
        "shared_list": {
            score.arm: score.value for score in result.shared if score.segment == row.segment
        },
    }


def _apart_dict(result: FileComparison, segment: str) -> dict[str, object] | None:
    breakdown = result.apart.get(segment)
    if breakdown is None:
        return None
    parts = None
    if breakdown.parts is not None:
        parts = pick(breakdown.parts, "membership", "order", "length")
    return {"metric": breakdown.metric, "parts": parts, "shares": breakdown.shares}


def _summary_dicts(
    result: FileComparison, trainings: FileComparison | None, row: CoverageRow
) -> list[dict[str, Any]]:
    """Return the segment's summaries, each before that of its noise floor."""
    dicts = []
    for summary in result.summaries:
        if summary.segment != row.segment:
            continue
        chance = {"by_chance": result.by_chance[summary.metric]}
        dicts.append(summary_dict(summary) | chance)
        floor = _find_floor(trainings, summary)
        if floor is not None:
            dicts.append(summary_dict(floor) | chance)
    return dicts


def _find_floor(trainings: FileComparison | None, summary: Summary) -> Summary | None:
    """Return the summary of the same metric and segment between the two trainings."""
    from monitor.model.statistics import DerivedMetric

    if trainings is None:
        return None
    for floor in trainings.summaries:
        if (floor.segment, floor.metric) == (summary.segment, summary.metric):
            return replace(floor, metric=DerivedMetric.FLOOR.of(floor.metric))
    return None
