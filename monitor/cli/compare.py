"""The command `compare`. It compares two files without a database."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import typer

from monitor.cli import compare_options as options
from monitor.cli.compare_log import print_log, read_test, refuse_options
from monitor.cli.compare_output import Compared, compared_dict, compared_page, print_compared
from monitor.cli.file_columns import (
    file_options,
    fitting_options,
    list_shapes,
    pick_column,
    require_named_columns,
)
from monitor.cli.output import print_json, require_writable, write_page
from monitor.cli.parameters import AsJson, HtmlFile
from monitor.model.errors import InputError, MetricError, SourceError
from monitor.model.instants import utc_now

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from monitor.measures.metrics import Metric
    from monitor.model.interpretation import Interpretation
    from monitor.model.runs import Evidence
    from monitor.service.analysis.file_comparison import FileComparison
    from monitor.sources.file import FileUsersOptions

_USERS_IN_HTML = 6
"""The number of users with the least similar lists that the HTML file shows without --worst."""


def compare_lists(  # noqa: PLR0913 - the command's options
    baseline: options.Baseline = None,
    candidate: options.Candidate = None,
    *,
    k: options.TopK = 10,
    metric: options.MetricOptions = None,
    by: options.By = None,
    worst: options.Worst = 0,
    user: options.UserColumn = None,
    items: options.ItemsColumn = None,
    item: options.ItemColumn = None,
    rank: options.RankColumn = None,
    in_order: options.InOrder = False,
    scores: options.ScoresColumn = None,
    no_item: options.NoItemOption = None,
    max_unreadable: options.MaxUnreadableOption = None,
    item_ids: options.ItemIds = None,
    user_ids: options.UserIds = None,
    users: options.UsersFile = None,
    titles: options.TitlesFile = None,
    catalogue: options.Catalogue = None,
    retrained: options.RetrainedFile = None,
    html: HtmlFile = None,
    unpaired: options.UnpairedLog = None,
    arms: options.ArmValues = None,
    before: options.Before = None,
    arm: options.ArmColumnOption = None,
    time: options.TimeColumn = None,
    split: options.SplitOption = 0.5,
    outcome: options.Outcomes = None,
    as_json: AsJson = False,
) -> None:
    """Compare two files of lists, without a configuration.

    Each row of a file contains one list or one item. The command finds the columns by their usual
    names, such as customer, product and position. The last lines of the output explain the result,
    and say how many users it is based on. Both files must contain lists of the same users. If each
    user is served by only one arm, use --unpaired with a log. For each arm, the command then
    compares the users' newest lists with their lists from before the test. With --unpaired, the
    exit code is 3 if the result cannot be used, for example because the users are not split as
    planned.
    """
    from monitor.measures.metrics import DEFAULT_METRICS
    from monitor.model.rankings import ALL
    from monitor.service.analysis.file_comparison import compare_files

    metrics = _read_metrics(metric or DEFAULT_METRICS, has_scores=scores is not None)
    # Options of both files, whatever the shape of their rows.
    common: dict[str, object] = {
        "scores": scores,
        "no_item": no_item,
        "max_unreadable": max_unreadable,
        "item_ids": _read_forms("--item-ids", item_ids),
        "user_ids": _read_forms("--user-ids", user_ids),
    }
    shapes = list_shapes(common, items, item, rank, in_order=in_order)
    named = []
    if items:
        named.append("items")
    if item or rank or in_order:
        named.append("item")
    if unpaired is not None:
        refuse_options(
            {
                "BASELINE": baseline,
                "--users": users,
                "--catalogue": catalogue,
                "--retrained": retrained,
                "--html": html,
                "--titles": titles,
            }
        )
        test = read_test(
            unpaired, arms, before, arm=arm, time=time, split=split, outcomes=outcome or ()
        )
        log = fitting_options(unpaired, user, shapes)
        require_named_columns(unpaired, user, shapes, [log], named)
        print_log(log, test, metrics, k, by=by, worst=worst, as_json=as_json)
        return
    if baseline is None or candidate is None:
        raise typer.BadParameter("give two files, the baseline's first, or a log with --unpaired")
    shown_users = worst
    if html is not None:
        require_writable(html)
        shown_users = worst or _USERS_IN_HTML
    files = fitting_options(baseline, user, shapes), fitting_options(candidate, user, shapes)
    compare = partial(
        compare_files,
        metrics=metrics,
        k=k,
        users=None if users is None else _users_options(users, user, common),
        by=by,
    )
    second = None if retrained is None else fitting_options(retrained, user, shapes)
    chosen = files if second is None else (*files, second)
    require_named_columns(baseline, user, shapes, chosen, named)
    _read_titles(titles, ())  # mistakes are reported before the comparison, which may take minutes
    result = compare(files, also_in=second, worst=shown_users, catalogue=catalogue)
    trainings = None
    if second is not None:
        # Both comparisons have the same users, and the notes on the baseline's file.
        trainings = compare((files[0], second), also_in=files[1])
        notes = dict.fromkeys((*result.notes, *trainings.notes))
        result = replace(result, notes=tuple(notes))
    meanings = _interpret(result, metrics[0], trainings)
    others = [_interpret(result, metric, trainings).get(ALL) for metric in metrics[1:]]
    compared = Compared(
        result=result,
        trainings=trainings,
        k=k,
        meanings=meanings,
        meaning_lines=_meaning_lines(result, meanings, others, by),
        titles=_read_titles(titles, result.worst),
    )
    title = f"{baseline.name} and {candidate.name}"
    _show_result(compared, worst, html, title, as_json=as_json)


def _show_result(
    compared: Compared, worst: int, html: Path | None, title: str, *, as_json: bool
) -> None:
    """Write the HTML file, and print the result with ``worst`` users. The file may have more."""
    if html is not None:
        write_page(html, title, "compared.html", [compared_page(compared)])
    result = replace(compared.result, worst=compared.result.worst[:worst])
    compared = replace(compared, result=result)
    if as_json:
        print_json(compared_dict(compared))
    else:
        print_compared(compared)


def _users_options(
    path: Path, user: Sequence[str] | None, common: Mapping[str, object]
) -> FileUsersOptions:
    """Return the options of the file with the users to compare."""
    from monitor.model.column_names import USER_COLUMNS
    from monitor.sources.file import FileUsersOptions

    columns = {
        "user_ids": common["user_ids"],
        "max_unreadable": common["max_unreadable"],
        "user": pick_column(path, user or USER_COLUMNS),
    }
    return file_options(FileUsersOptions, path, columns)


def _interpret(
    result: FileComparison, metric: Metric, trainings: FileComparison | None
) -> dict[str, Interpretation]:
    """Interpret the metric in each segment for which that is possible."""
    from monitor.model.rankings import ALL
    from monitor.service.analysis.interpretation import interpret_summary, measure_concentration

    name = str(metric)
    floors = {}
    if trainings is not None:
        for summary in trainings.summaries:
            if summary.metric == name:
                floors[summary.segment] = summary
    meanings = {}
    for summary in result.summaries:
        if summary.metric != name:
            continue
        meaning = interpret_summary(
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
    # If the candidate differs from the baseline more than the second training does, the spread is
    # that of the excess.
    usual = None
    if trainings is not None and overall.trainings is not None and overall.trainings.is_exceeded:
        usual = trainings.distances
    meanings[ALL] = replace(overall, spread=measure_concentration(result.distances, usual))
    return meanings


def _meaning_lines(
    result: FileComparison,
    meanings: Mapping[str, Interpretation],
    others: Sequence[Interpretation | None],
    by: str | None,
) -> list[str]:
    """Say what the result means, who gets one and the same list, and how segments differ.

    ``meanings`` are of the first metric, by segment. ``others`` are of the other metrics.
    """
    from monitor.model.rankings import ALL
    from monitor.service.analysis.interpretation import find_common_list_shares
    from monitor.texts.interpretation import (
        write_first_differs,
        write_interpretation,
        write_other_metrics,
        write_segments,
        write_shared,
    )

    lines: list[str] = []
    if ALL in meanings:
        lines += write_first_differs(result.first_differs[ALL])
        in_short, *further = write_interpretation(meanings[ALL], has_segments=by is not None)
        lines += [in_short, *write_other_metrics(meanings[ALL], others), *further]
    shared = find_common_list_shares(result.shared)
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


def _read_titles(path: Path | None, users: Sequence[Evidence]) -> Mapping[str, str]:
    """Return the titles of the items in these users' lists. Empty without a file."""
    from monitor.model.column_names import ITEM_COLUMNS
    from monitor.model.runs import items_of
    from monitor.sources.file import FileItemTitlesOptions
    from monitor.sources.file.source import FileTable

    if path is None:
        return {}
    columns = {"item": pick_column(path, ITEM_COLUMNS), "title": pick_column(path, ["title"])}
    source = FileTable(file_options(FileItemTitlesOptions, path, columns))
    try:
        return source.titles(utc_now(), items_of(users))
    except SourceError as error:
        raise InputError(error.shown) from None
