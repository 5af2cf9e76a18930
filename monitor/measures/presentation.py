"""Texts and small tables of a run for terminals, pages and messages. They are not escaped."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import compress, islice, zip_longest

from monitor.measures.metrics import expected_by_chance, parse
from monitor.model.errors import MetricError
from monitor.model.explanation import (
    DropPart,
    Explanation,
    ExposedItem,
    PartAmount,
    SegmentFall,
    UserGroup,
)
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm, ranks_by_item
from monitor.model.runs import ArmScore, Run
from monitor.model.unpaired import ArmGap
from monitor.texts.wording import count_of, write_number

SHOWN_SEGMENTS = 8
"""At most this many segments of the dimension that explains most of the drop are shown."""

_EXPOSURE_COLUMNS = (
    "item",
    "title",
    "exposure>",
    "exposure before>",
    "in lists>",
    "in lists before>",
)
_ITEM_COLUMNS_BY_ARM = (
    "item",
    "title",
    "exposure in candidate>",
    "in baseline>",
    "in candidate lists>",
    "in baseline lists>",
)


@immutable
class TextTable:
    """A table of text. If the name of a column ends in ``>``, the column is aligned right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def side_by_side(
    baseline: Sequence[str], candidate: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield, for each rank, the items of both arms and the change of the candidate's item.

    After the end of a list, its item is empty text. The change is ``was 3`` if the baseline has the
    item at rank 3, and ``new`` if the baseline does not have it. It is empty if the rank is the
    same.
    """
    ranks = ranks_by_item(baseline, candidate)
    for left, right in zip_longest(baseline, candidate, fillvalue=""):
        before, after = ranks.get(right, (None, None))
        if before == after:
            change = ""
        elif before is None:
            change = "new"
        else:
            change = f"was {before}"
        yield left, right, change


def explanation_title(explanation: Explanation) -> str:
    """The title of an explanation. It names the metric and the lists that were compared."""
    if explanation.is_unpaired:
        return f"The users of both arms compared by {explanation.metric}"
    if explanation.before is None:
        return f"Both arms compared by {explanation.metric}"
    earlier = "an earlier run"
    if explanation.since is not None:
        earlier = f"the run of {explanation.since:%Y-%m-%d %H:%M}"
    users = count_of(explanation.paired, "user")
    return f"Compared with {earlier} by {explanation.metric}, for {users}"


def explanation_tables(explanation: Explanation) -> tuple[TextTable, ...]:
    """The tables of an explanation for parts of the drop, segments, items and users.

    Tables without rows are left out. If each user is served by one arm only, the items are those of
    a segment, because `difference_tables` has those of all users.
    """
    items = (*explanation.gained, *explanation.lost)
    columns = _EXPOSURE_COLUMNS
    if explanation.has_items_by_arm:
        columns = _ITEM_COLUMNS_BY_ARM
        items = () if explanation.segment == ALL else items
    tables = (
        TextTable(
            title="Pieces of the drop",
            columns=("part", "drop>", "share>"),
            rows=tuple(_piece_row(cause, explanation.drop) for cause in explanation.causes),
        ),
        TextTable(
            title="Segments",
            columns=(
                "segment",
                "users>",
                "before>",
                "drop>",
                "share>",
                *map("{}>".format, DropPart),
            ),
            rows=tuple(_segment_row(fall, explanation.drop) for fall in _leading(explanation)),
        ),
        TextTable(
            title=f"Items, users of {explanation.segment}",
            columns=columns,
            rows=tuple(map(_item_row, items)),
        ),
        TextTable(
            title=f"Lists, users of {explanation.segment}",
            columns=("lists", "users>", "share>", "before>", "distance>", "such as"),
            rows=tuple(map(_group_row, explanation.groups)),
        ),
    )
    return tuple(table for table in tables if table.rows)


def _leading(explanation: Explanation) -> Iterator[SegmentFall]:
    """The first segments of the dimension that explains most of the drop.

    It is the dimension of the first segment.
    """
    dimensions = [fall.segment.partition("=")[0] for fall in explanation.falls]
    is_leading = [dimension == dimensions[0] for dimension in dimensions]
    return islice(compress(explanation.falls, is_leading), SHOWN_SEGMENTS)


def _piece_row(cause: PartAmount, drop: float) -> tuple[str, ...]:
    return cause.part, f"{cause.amount:.4f}", _share_of_drop(cause.amount, drop)


def _segment_row(fall: SegmentFall, drop: float) -> tuple[str, ...]:
    return (
        fall.segment,
        percent_cell(fall.share),
        percent_cell(fall.share_before),
        f"{fall.total:.4f}",
        _share_of_drop(fall.total, drop),
        *(f"{fall.parts[part]:.4f}" for part in DropPart),
    )


def _item_row(item: ExposedItem) -> tuple[str, ...]:
    return (
        item.item,
        item.title or "",
        f"{item.after:.4f}",
        f"{item.before:.4f}",
        percent_cell(item.share_after),
        percent_cell(item.share_before),
    )


def _group_row(group: UserGroup) -> tuple[str, ...]:
    return (
        group.change.replace("_", " "),
        f"{group.users:,}",
        percent_cell(group.share),
        "-" if group.share_before is None else percent_cell(group.share_before),
        f"{group.distance:.4f}",
        ", ".join(example.user for example in group.examples),
    )


def _share_of_drop(amount: float, drop: float) -> str:
    return f"{amount / drop:.0%}" if drop > 0 else "-"


def percent_cell(share: float) -> str:
    """Write a share for a column of a table, with one decimal, so that its figures align."""
    return f"{share:.1%}"


def score_by_chance(metric: str, run: Run) -> float | None:
    """The mean score of two random lists of k items of the run's catalogue. None if unknown."""
    if run.k is None or run.catalogue_size is None:
        return None
    return _expected(metric, run.k, run.catalogue_size)


def arm_table(scores: Iterable[ArmScore], gaps: Iterable[ArmGap]) -> TextTable:
    """The metrics of each arm, by segment. With ``gaps``, the table has the adjusted gaps too.

    The last column has the number of lists. If the arms have different numbers of lists, it has
    both, the baseline's first.
    """
    adjusted = {(gap.segment, gap.metric): f"{gap.adjusted:+.4f}" for gap in gaps}
    columns = ["segment", "arm-wide metric", "baseline>", "candidate>", "lists>"]
    if adjusted:
        columns.insert(-1, "adjusted gap>")
    scores_by_row: dict[tuple[str, str], dict[Arm, ArmScore]] = {}
    for score in scores:
        scores_by_row.setdefault((score.segment, score.metric), {})[score.arm] = score
    rows = []
    for key, score_of in scores_by_row.items():
        values = [write_number(score_of[arm].value) if arm in score_of else "-" for arm in Arm]
        counts = dict.fromkeys(f"{score_of[arm].n:,}" for arm in Arm if arm in score_of)
        row = [*key, *values, " / ".join(counts)]
        if adjusted:
            row.insert(-1, adjusted.get(key, "-"))
        rows.append(tuple(row))
    return TextTable(title="Each arm", columns=tuple(columns), rows=tuple(rows))


@lru_cache(maxsize=4096)
def _expected(metric: str, k: int, catalogue: int) -> float | None:
    # The result is also None if this version does not know the metric, or if the catalogue has
    # fewer than k items.
    try:
        return expected_by_chance(parse(metric), k, catalogue)
    except MetricError:
        return None
