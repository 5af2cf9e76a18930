"""Tables of a run in which each user is served by one arm only. They are not escaped."""

from collections.abc import Iterable, Iterator, Mapping

from monitor.measures.presentation import TextTable, percent_cell
from monitor.model.rankings import Arm
from monitor.model.runs import Summary
from monitor.model.statistics import OUTCOME_SERIES, PRE_TEST_SERIES, DerivedMetric, parse_derived
from monitor.model.unpaired import BetweenExcess, ItemExposure, UnpairedResults
from monitor.texts.wording import write_number

GAP_COLUMNS = (
    "segment",
    "metric",
    "baseline>",
    "candidate>",
    "self gap>",
    "far gap>",
    "users>",
)


_QUANTILE_NAMES = ("p05", "p25", "p50", "p75", "p95")
QUANTILE_COLUMNS = ("segment", "series", *(f"{name}>" for name in _QUANTILE_NAMES), "users>")


def user_table(results: UnpairedResults) -> TextTable:
    """How many users each arm has, and how many of them were compared."""
    counts = [results.users[arm] for arm in Arm]
    assigned = sum(count.assigned for count in counts)
    planned = (results.baseline_share, 1 - results.baseline_share)
    return TextTable(
        title="Users",
        columns=("users", *(f"{arm}>" for arm in Arm)),
        rows=(
            ("assigned since the test began", *(f"{count.assigned:,}" for count in counts)),
            (
                "share of the assigned users",
                *(_share(count.assigned, assigned) for count in counts),
            ),
            ("planned share", *map(percent_cell, planned)),
            ("served in this run", *(f"{count.served:,}" for count in counts)),
            ("compared with a pre-test list", *(f"{count.compared:,}" for count in counts)),
        ),
    )


def outcome_table(results: UnpairedResults) -> TextTable:
    """The outcomes of both arms' users, and how much they differ."""
    rows = []
    for gap in results.outcomes:
        interval = "-"
        if gap.low is not None and gap.high is not None:
            interval = f"{gap.low:+.2%} to {gap.high:+.2%}"
        difference = "-" if gap.difference is None else f"{gap.difference:+.2%}"
        means = (write_number(gap.means[arm]) for arm in Arm)
        rows.append((gap.column, *means, difference, interval, f"{gap.users:,}"))
    return TextTable(
        title="Outcomes of a user since the test began",
        columns=("outcome", *(f"{arm}>" for arm in Arm), "difference>", "interval>", "users>"),
        rows=tuple(rows),
    )


def gap_rows(summaries: Iterable[Summary]) -> Iterator[tuple[str, ...]]:
    """Yield one row of text for each segment and metric, with the cells of `GAP_COLUMNS`."""
    groups: dict[tuple[str, str], dict[DerivedMetric | None, Summary]] = {}
    for summary in summaries:
        series, metric = parse_derived(summary.metric)
        if series in OUTCOME_SERIES:
            continue
        groups.setdefault((summary.segment, metric), {})[series] = summary
    for (segment, metric), by_series in groups.items():
        means = {series: write_number(summary.mean) for series, summary in by_series.items()}
        arms = [series for series in PRE_TEST_SERIES.values() if series in by_series]
        yield (
            segment,
            metric,
            *(means.get(series, "-") for series in PRE_TEST_SERIES.values()),
            _with_error(by_series.get(DerivedMetric.SELF_GAP)),
            means.get(DerivedMetric.FAR_GAP, "-"),
            f"{sum(by_series[series].n for series in arms):,}",
        )


def quantile_rows(summaries: Iterable[Summary]) -> Iterator[tuple[str, ...]]:
    """Yield one row of text for each segment, metric and arm, with the cells of the columns."""
    for summary in summaries:
        if parse_derived(summary.metric).derived in PRE_TEST_SERIES.values():
            quantiles = [write_number(summary.value(name)) for name in _QUANTILE_NAMES]
            yield summary.segment, summary.metric, *quantiles, f"{summary.n:,}"


def difference_tables(
    results: UnpairedResults, titles: Mapping[str, str], most_items: int
) -> tuple[TextTable, ...]:
    """The items whose exposure differs most, and how alike users are. Empty tables are left out."""
    items = [_item_row(item, results.counted, titles) for item in results.items[:most_items]]
    tables = (
        TextTable(
            title="Items whose exposure differs most between the arms",
            columns=(
                "item",
                "in baseline lists>",
                "in candidate lists>",
                "first in baseline>",
                "first in candidate>",
            ),
            rows=tuple(items),
        ),
        TextTable(
            title="Mean RBO of two different users",
            columns=(
                "segment",
                "both in baseline>",
                "both in candidate>",
                "one in each>",
                "excess>",
            ),
            rows=tuple(map(_between_row, results.between)),
        ),
    )
    return tuple(table for table in tables if table.rows)


def _with_error(gap: Summary | None) -> str:
    if gap is None or gap.mean is None:
        return "-"
    return f"{gap.mean:+.4f} ± {write_number(gap.standard_error)}"


def _item_row(
    item: ItemExposure, counted: Mapping[Arm, int], titles: Mapping[str, str]
) -> tuple[str, ...]:
    name = item.item
    if name in titles:
        name = f"{titles[name]} ({name})"
    return (
        name,
        *(_share(item.lists[arm], counted.get(arm, 0)) for arm in Arm),
        *(_share(item.first[arm], counted.get(arm, 0)) for arm in Arm),
    )


def _between_row(between: BetweenExcess) -> tuple[str, ...]:
    return (
        between.segment,
        write_number(between.baseline),
        write_number(between.candidate),
        write_number(between.across),
        write_number(between.excess),
    )


def _share(count: int, users: int) -> str:
    return percent_cell(count / users) if users else "-"
