"""Prints the result of the command `compare`, and makes its JSON and its HTML page."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from monitor.cli.output import (
    attributes_of,
    cells_of,
    print_evidence,
    print_line,
    print_objects,
    scores_line,
    summary_dict,
)
from monitor.model.immutable import immutable
from monitor.texts.wording import write_number, write_percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.model.interpretation import Interpretation
    from monitor.model.rankings import CoverageRow
    from monitor.model.runs import Summary
    from monitor.service.analysis.file_comparison import ChangeBreakdown, FileComparison

_COLUMNS = "metric mean> by_chance> standard_error> p05> p50> p95> n> n_undefined>"


@immutable
class Compared:
    """The result of `compare`, with all that people see next to it."""

    result: FileComparison
    # The baseline's lists, compared with the lists of its second training.
    trainings: FileComparison | None
    k: int
    meanings: Mapping[str, Interpretation]  # what the scores of each segment mean
    meaning_lines: Sequence[str]  # the same as sentences
    titles: Mapping[str, str]  # by item


def print_compared(compared: Compared) -> None:
    """Print the result for all users and for each segment, and then what it means."""
    result = compared.result
    for line in _coverage_lines(compared):
        print_line(line)
    all_users, *segments = result.coverage.rows
    print_objects(_metric_objects(compared, all_users), _COLUMNS, as_json=False)
    print_line(_chance_line(result))
    _print_changes(compared, all_users)
    for row in segments:
        print_line()
        title = f"{row.segment}: {row.paired:,} of {row.asked:,} users compared"
        print_objects(_metric_objects(compared, row), _COLUMNS, as_json=False, title=title)
        _print_changes(compared, row)
    print_evidence(result.worst, compared.titles)
    print_line()
    for line in compared.meaning_lines:
        print_line(line)


def _print_changes(compared: Compared, row: CoverageRow) -> None:
    """Print how the lists of a segment differ. Nothing is printed if no users were compared."""
    if row.paired:
        print_line(_changes_line(compared.result.apart[row.segment]))
    if compared.trainings is not None and row.segment in compared.trainings.apart:
        print_line(f"retraining: {_changes_line(compared.trainings.apart[row.segment])}")


def compared_page(compared: Compared) -> dict[str, object]:
    """Return the values of the template ``compared.html``."""
    from monitor.charts.bars import Bar, draw_bars
    from monitor.measures.frames.comparison import draw_pair
    from monitor.measures.frames.summary import draw_distribution
    from monitor.model.rankings import ALL

    result = compared.result
    objects = []
    changes = []
    for row in result.coverage.rows:
        objects += _metric_objects(compared, row)
        if row.paired:
            changes.append((row.segment, _changes_line(result.apart[row.segment])))
    if compared.trainings is not None:
        changes.append((ALL, f"retraining: {_changes_line(compared.trainings.apart[ALL])}"))
    bars = []
    for kind, share in result.apart[ALL].shares.items():
        if share:
            name = kind.replace("_", " ")
            bars.append(Bar(name=name, amount=share, figure=write_percent(share), kind="total"))
    distributions = []
    for summary in result.summaries:
        if summary.segment != ALL:
            continue
        chance = result.by_chance[summary.metric]
        distributions.append(draw_distribution(summary, chance))
        floor = _find_floor(compared, summary)
        if floor is not None:
            distributions.append(draw_distribution(floor, chance))
    users = []
    for example in result.worst:
        pair = draw_pair(example.baseline, example.candidate, compared.titles, scores_line(example))
        users.append((example.user, pair.body))
    return {
        "lines": (*_coverage_lines(compared), _chance_line(result), *compared.meaning_lines),
        "changes": changes,
        "kinds": draw_bars(bars, label="lists by kind of change"),
        "spreads": distributions,
        "metrics": cells_of(objects, f"segment {_COLUMNS}"),
        "users": users,
    }


def compared_dict(compared: Compared) -> dict[str, object]:
    """Return the result as JSON: first of all users, and below ``by_segment`` of each segment."""
    result = compared.result
    all_users, *segments = [_segment_dict(compared, row) for row in result.coverage.rows]
    return {
        "k": compared.k,
        **all_users,
        "catalogue_size": result.catalogue_size,
        "typical_length": result.length,
        "by_segment": segments,
        "worst": result.worst,
        "notes": [*result.notes, *_mismatch_lines(result)],
        "id_mismatches": result.id_mismatches,
        "titles": compared.titles,
    }


def _segment_dict(compared: Compared, row: CoverageRow) -> dict[str, object]:
    """Return the JSON of one segment."""
    result = compared.result
    floor_apart = None
    if compared.trainings is not None:
        floor_apart = _apart_dict(compared.trainings, row.segment)
    first_differs = result.first_differs.get(row.segment)
    meaning = compared.meanings.get(row.segment)
    interpretation = None
    if meaning is not None:
        interpretation = {**asdict(meaning), "closeness": meaning.closeness}
    return {
        **asdict(row),
        "summaries": _summary_dicts(compared, row),
        "apart": _apart_dict(result, row.segment),
        "floor_apart": floor_apart,
        "interpretation": interpretation,
        "shared_list": {
            score.arm: score.value for score in result.shared if score.segment == row.segment
        },
        "first_differs": None if first_differs is None else first_differs.value,
    }


def _apart_dict(result: FileComparison, segment: str) -> dict[str, object] | None:
    """Return how the lists of a segment differ, or None for a segment without pairs."""
    breakdown = result.apart.get(segment)
    if breakdown is None:
        return None
    parts = None
    if breakdown.parts is not None:
        parts = attributes_of(breakdown.parts, "membership", "order", "length")
    return {"metric": breakdown.metric, "parts": parts, "shares": breakdown.shares}


def _metric_objects(compared: Compared, row: CoverageRow) -> list[dict[str, object]]:
    """Return the rows of the segment's table of metrics. Each statistic has its own column."""
    return [summary | summary["statistics"] for summary in _summary_dicts(compared, row)]


def _summary_dicts(compared: Compared, row: CoverageRow) -> list[dict[str, Any]]:
    """Return the segment's summaries, each before that of its noise floor."""
    dicts = []
    for summary in compared.result.summaries:
        if summary.segment != row.segment:
            continue
        chance = {"by_chance": compared.result.by_chance[summary.metric]}
        dicts.append(summary_dict(summary) | chance)
        floor = _find_floor(compared, summary)
        if floor is not None:
            dicts.append(summary_dict(floor) | chance)
    return dicts


def _find_floor(compared: Compared, summary: Summary) -> Summary | None:
    """Return the noise floor: the summary of the same metric and segment for the two trainings.

    None if no second training was given, or if it has no such summary.
    """
    from monitor.model.statistics import DerivedMetric

    if compared.trainings is None:
        return None
    for floor in compared.trainings.summaries:
        if (floor.segment, floor.metric) == (summary.segment, summary.metric):
            return replace(floor, metric=DerivedMetric.FLOOR.of(floor.metric))
    return None


def _coverage_lines(compared: Compared) -> list[str]:
    """Say how many users were compared, why others were not, and what was found in the files."""
    result = compared.result
    coverage = result.coverage.all
    line = f"{coverage.paired:,} of {coverage.asked:,} users compared at k={compared.k}"
    reasons = []
    for (arm, reason), count in coverage.users_by_reason.items():
        reasons.append(f"{count:,} {reason} in {arm}")
    if reasons:
        line += f" ({', '.join(reasons)})"
    return [line, *result.notes, *_mismatch_lines(result)]


def _mismatch_lines(result: FileComparison) -> list[str]:
    from monitor.texts.id_mismatches import Surface, write_mismatch

    return [write_mismatch(mismatch, Surface.COMMAND) for mismatch in result.id_mismatches]


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
            shares.append(f"{write_percent(share)} {kind.replace('_', ' ')}")
    kinds = f"lists: {', '.join(shares)}"
    parts = breakdown.parts
    if parts is None:
        return kinds
    return (
        f"{breakdown.metric} is {write_number(parts.total)} away from its value for identical "
        f"lists: items replaced {write_number(parts.membership)}, "
        f"order {write_number(parts.order)}, length {write_number(parts.length)}; {kinds}"
    )
