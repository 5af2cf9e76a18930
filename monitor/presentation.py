"""What terminals, pages and messages show of a run, as text and small tables.

Escaping is theirs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from monitor.errors import MetricError
from monitor.metrics import expected_by_chance, parse
from monitor.model.explanation import Explanation, ExposedItem, Part, SegmentFall
from monitor.model.rankings import Arm
from monitor.model.runs import ArmScore, Run

SEGMENTS = 8
"""Segments of the leading dimension that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table: column names, ending in ``>`` where aligned right, and rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def side_by_side(
    baseline: Sequence[str], candidate: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """Both items of each rank, empty where a list has ended, and where the candidate's was: ``was 3``, ``new``, or empty."""
    before = {item: rank for rank, item in enumerate(baseline, start=1)}
    for rank, (left, right) in enumerate(zip_longest(baseline, candidate, fillvalue=""), start=1):
        was = before.get(right)
        yield left, right, "" if not right or was == rank else f"was {was}" if was else "new"


def explanation_title(explanation: Explanation) -> str:
    """What was explained and against what."""
    if explanation.before is None:
        return f"What sets lists apart by {explanation.metric}"
    when = (
        "before"
        if explanation.since is None
        else f"in the run of {explanation.since:%Y-%m-%d %H:%M}"
    )
    return (
        f"Why, by {explanation.metric} against the lists that {explanation.paired:,} users "
        f"had {when}"
    )


def explanation_tables(explanation: Explanation) -> tuple[TextTable, ...]:
    """Its tables, empty ones left out: pieces of the drop, segments, items, groups of users."""
    segment, falls = explanation.segment, explanation.falls
    # Segments of the first dimension, which explains most; they come ranked by what they fell
    # beyond their share.
    leading = [
        fall
        for fall in falls
        if fall.segment.partition("=")[0] == falls[0].segment.partition("=")[0]
    ][:SEGMENTS]
    pieces = tuple(
        (each.part, f"{each.amount:.4f}", _of(each.amount, explanation.drop))
        for each in explanation.causes
    )
    sheets = (
        TextTable(title="Pieces of the drop", columns=("part", "drop>", "share>"), rows=pieces),
        TextTable(
            title="Segments",
            columns=(
                "segment",
                "users>",
                "before>",
                "drop>",
                "share>",
                *(f"{part}>" for part in Part),
            ),
            rows=tuple(_segment(fall, explanation) for fall in leading),
        ),
        TextTable(
            title=f"Items, users of {segment}",
            columns=(
                "item",
                "title",
                "exposure>",
                "exposure before>",
                "in lists>",
                "in lists before>",
            ),
            rows=tuple(map(_item, (*explanation.gained, *explanation.lost))),
        ),
        TextTable(
            title=f"Lists, users of {segment}",
            columns=("lists", "users>", "share>", "before>", "distance>", "such as"),
            rows=tuple(
                (
                    each.change.replace("_", " "),
                    f"{each.users:,}",
                    _percent(each.share),
                    "-" if each.share_before is None else _percent(each.share_before),
                    f"{each.distance:.4f}",
                    ", ".join(example.user for example in each.examples),
                )
                for each in explanation.groups
            ),
        ),
    )
    return tuple(sheet for sheet in sheets if sheet.rows)


def _segment(fall: SegmentFall, explanation: Explanation) -> tuple[str, ...]:
    shares = (_percent(fall.share), _percent(fall.share_before))
    amounts = (f"{fall.whole:.4f}", _of(fall.whole, explanation.drop))
    return (fall.segment, *shares, *amounts, *(f"{fall.parts[part]:.4f}" for part in Part))


def _item(item: ExposedItem) -> tuple[str, ...]:
    exposures = (f"{item.after:.4f}", f"{item.before:.4f}")
    return (
        item.item,
        item.title or "",
        *exposures,
        _percent(item.share_after),
        _percent(item.share_before),
    )


def _of(amount: float, drop: float) -> str:
    """A share of the drop; of a rise there is none."""
    return f"{amount / drop:.0%}" if drop > 0 else "-"


def _percent(share: float) -> str:
    return f"{share:.1%}"


def score_by_chance(metric: str, run: Run) -> float | None:
    """Score to expect of two random lists of the run's k items from its catalogue.

    None where that is not known.
    """
    return (
        None
        if run.k is None or run.catalogue_size is None
        else _expected(metric, run.k, run.catalogue_size)
    )


def arm_rows(scores: Iterable[ArmScore]) -> Iterator[tuple[str, ...]]:
    """Segment, arm-wide metric, its value for the baseline and the candidate, and how many lists it measures, at most."""
    pairs: dict[tuple[str, str], dict[Arm, ArmScore]] = {}
    for score in scores:
        pairs.setdefault((score.segment, score.metric), {})[score.arm] = score
    for (segment, metric), arms in pairs.items():
        values = (arms[arm].value if arm in arms else None for arm in Arm)
        shown = ("-" if value is None else f"{value:.4f}" for value in values)
        yield (segment, metric, *shown, f"{max(score.n for score in arms.values()):,}")


@lru_cache(maxsize=4096)
def _expected(metric: str, k: int, catalogue: int) -> float | None:
    # None also for a metric that only a newer version knows, and for a catalogue of fewer than k
    # items.
    try:
        return expected_by_chance(parse(metric), k, catalogue)
    except MetricError:
        return None
