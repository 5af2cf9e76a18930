"""Renders templates, with their charts and tables. All values are escaped."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from operator import attrgetter

import jinja2
from markupsafe import Markup, escape

from monitor.boundary.redaction import escape_controls
from monitor.charts.bars import Bar, draw_bars, draw_heat_map, draw_waterfall
from monitor.charts.slope_chart import draw_slopes, draw_thumbnail
from monitor.charts.svg import element, link_to, read_style
from monitor.charts.time_chart import Level, Point, Span, draw_series, draw_sparkline, draw_stack
from monitor.measures import presentation, unpaired_presentation
from monitor.model.alerts import AlertState, State
from monitor.model.explanation import Explanation
from monitor.model.pages import UserRun
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.rules import Severity
from monitor.texts import unpaired
from monitor.texts.conditions import write_health, write_other_value
from monitor.texts.deliveries import write_receivers
from monitor.texts.run_notes import write_run_notes
from monitor.texts.wording import write_cell, write_number
from monitor.web.pages import site as addresses
from monitor.web.pages.comparison import PERIODS, ComparisonPage
from monitor.web.pages.run import RunPage

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86_400
_MOST_SEGMENTS = 12
_CODE = re.compile("`([^`]+)`")
_UNIT = re.compile(r"(?<=\d) (?=%|m?s\b)")
_SERIES_COLORS = 8  # the style sheet has so many colors for series


def render(template: str, **values: object) -> str:
    """Render the template with these values, and return the page."""
    return _templates().get_template(template).render(**values)


@cache
def read_static(name: str) -> str:
    """Return the text of the style sheet, the script or the icon."""
    if name == "rankwatch.css":
        return read_style()
    return resources.files("monitor.web").joinpath("static", name).read_text(encoding="utf-8")


def series_chart(page: ComparisonPage) -> Markup:
    """Draw the metric over time. Each point links to the page of its run."""
    points = []
    for run in page.points:
        note = f"{show_instant(run.slot)}: {write_number(run.mean)}"
        if run.status != "ok":
            note += f" ({run.status})"
        is_below_normal = run.low is not None and run.mean is not None and run.mean < run.low
        points.append(
            Point(
                at=run.slot,
                value=run.mean,
                note=note,
                link=addresses.run_url(page.comparison, run.slot),
                is_marked=is_below_normal,
                low=run.low,
                high=run.high,
                expected=run.expected,
            )
        )
    levels = [Level(value=value, name=name, kind="limit") for name, value in page.limits]
    if page.by_chance is not None:
        levels.append(Level(value=page.by_chance, name="by chance", kind="chance"))
    spans = []
    for firing in page.spans:
        name = f"{firing.alert} fires"
        spans.append(Span(start=firing.started_at, end=firing.ended_at, name=name, kind="firing"))
    for silence in page.silences:
        name = f"silenced: {silence.comment}"
        span = Span(start=silence.starts_at, end=silence.ends_at, name=name, kind="silenced")
        spans.append(span)
    for at, name in page.marks:
        spans.append(Span(start=at, end=at, name=name, kind="mark"))
    label = f"{page.metric} of {page.segment} over time, {len(points)} runs"
    return draw_series(points, label=label, levels=levels, spans=spans)


def distribution_chart(page: ComparisonPage) -> Markup:
    """Draw the distribution of scores as a heat map, with one column for each run.

    Runs whose histogram has other bounds than the last run's are left out, because their bins do
    not fit the rows of the map.
    """
    if not page.distribution:
        return Markup()
    _, last_histogram = page.distribution[-1]
    columns = {}
    for slot, histogram in page.distribution:
        if (histogram.low, histogram.high) == (last_histogram.low, last_histogram.high):
            columns[slot] = histogram.counts
    label = f"distribution of {page.metric} over {len(columns)} runs"
    ends = (show_instant(min(columns)), show_instant(max(columns)))
    return draw_heat_map(
        [*columns.values()], last_histogram.low, last_histogram.high, label=label, ends=ends
    )


def coverage_chart(page: ComparisonPage) -> Markup:
    """Draw the shares of users without a list, or with an imperfect list, by arm and reason."""
    if not page.coverage:
        return Markup()
    slots, rows = zip(*page.coverage, strict=True)
    arms_and_reasons: set[tuple[Arm, CoverageReason]] = set()
    for row in rows:
        arms_and_reasons.update(row.users_by_reason)
    shares: dict[str, list[float]] = {}
    legend = []
    for number, arm_and_reason in enumerate(sorted(arms_and_reasons)):
        arm, _ = arm_and_reason
        shares_by_run = []
        for row in rows:
            users = row.users_by_reason.get(arm_and_reason, 0)
            shares_by_run.append(users / max(1, row.asked_of(arm)))
        name = ": ".join(arm_and_reason)
        shares[name] = shares_by_run
        key_class = f"key s{number % _SERIES_COLORS}"
        legend.append(element("span", f"{name}, {shares_by_run[-1]:.1%} now", class_=key_class))
    label = "users without a list, or with an imperfect one"
    chart = draw_stack(slots, shares, label=label)
    if not chart:
        return chart
    return chart + element("p", *legend, class_="keys")


def drop_chart(explanation: Explanation) -> Markup:
    """Draw how much each cause changed the distance between the arms' lists."""
    if explanation.before is None:
        return Markup()
    steps = []
    for cause in explanation.causes:
        figure = f"{cause.amount:+.4f}"
        steps.append(Bar(name=str(cause.part), amount=cause.amount, figure=figure))
    before = _total_bar("distance before", explanation.before)
    now = _total_bar("distance now", explanation.now)
    return draw_waterfall(before, steps, now, label="the drop, piece by piece")


def _total_bar(name: str, amount: float) -> Bar:
    return Bar(name=name, amount=amount, figure=write_number(amount), kind="total")


def segment_chart(explanation: Explanation) -> Markup:
    """Draw how much each segment adds to the drop, for the dimension that explains most of it.

    The segments of this dimension come first in ``explanation.falls``.
    """
    if not explanation.falls:
        return Markup()
    dimension = _dimension_of(explanation.falls[0].segment)
    falls = [fall for fall in explanation.falls if _dimension_of(fall.segment) == dimension]
    bars = []
    for fall in falls[:_MOST_SEGMENTS]:
        figure = f"{fall.total:+.4f}, {fall.share:.0%} of users"
        bars.append(Bar(name=fall.segment, amount=fall.total, figure=figure))
    return draw_bars(bars, label=f"what each {dimension} adds to the drop")


def _dimension_of(segment: str) -> str:
    dimension, _, _ = segment.partition("=")
    return dimension


def user_chart(
    name: str,
    user: str,
    history: Sequence[UserRun],
    metric: str,
) -> Markup:
    """Draw one user's scores of one metric in each run."""
    points = []
    for run in history:
        score = run.scores.get(metric)
        note = f"{show_instant(run.slot)}: {write_number(score)}"
        url = addresses.user_url(name, user, run.slot)
        points.append(Point(at=run.slot, value=score, note=note, link=url))
    return draw_series(points, label=f"{metric} of this user over {len(points)} runs")


def show_duration(seconds: float | None) -> str:
    """Write a duration in the largest unit that it contains at least twice."""
    if seconds is None:
        return "never"
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def show_instant(value: datetime | None) -> str:
    """Write an instant in UTC, without seconds if they are zero."""
    return "never" if value is None else f"{value:%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def _write_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    caption: str = "",
    kind: str = "",
) -> Markup:
    """Return a table as HTML, or nothing if there are no rows.

    A template would take four times as long as this function.

    If the name of a column ends with ``>``, the column has numbers. If ``kind`` is ``rows``, small
    screens show each cell of a row on its own line.
    """
    heads = []
    cell_starts = []
    for column in columns:
        name = escape(column.rstrip(">"))
        class_ = ' class="n"' if column.endswith(">") else ""
        # On small screens each cell shows the name of its column.
        label = f' data-label="{name}"' if kind == "rows" else ""
        heads.append(f'<th scope="col"{class_}>{name}</th>')
        cell_starts.append(f"<td{label}{class_}>")
    lines = []
    for row in rows:
        cells = []
        for start, cell in zip(cell_starts, row, strict=True):
            cells.append(f"{start}{escape(_escape_control_characters(cell))}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    if not lines:
        return Markup()
    content = f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{''.join(lines)}</tbody>"
    table = element("table", Markup(content), class_=kind or None)  # noqa: S704 - parts are escaped
    return element(
        "div", table, class_="scroll", tabindex=0, role="region", aria_label=caption or "table"
    )


def write_prose(text: str) -> Markup:
    """Return a text of sentences as HTML.

    Words in backticks become code, and a number is not separated from its unit.
    """
    html = str(escape(escape_controls(text)))
    html = _UNIT.sub("\N{NO-BREAK SPACE}", html)
    return Markup(_CODE.sub(r"<code>\1</code>", html))  # noqa: S704 - escaped


def _rows_of(objects: Iterable[object], *names: str) -> list[tuple[str, ...]]:
    """Return one row for each object, with the attributes of these names, such as ``run.slot``."""
    rows = []
    for value in objects:
        cells = {name: write_cell(attrgetter(name)(value), show_instant) for name in names}
        if "reason" in cells:
            cells["reason"] = write_prose(cells["reason"])
        rows.append(tuple(cells.values()))
    return rows


def _state_rows(states: Iterable[AlertState]) -> list[tuple[str, ...]]:
    """Return one row for each alert: name, segment, state, value, limit, judged slot, reason."""
    rows: list[tuple[str, ...]] = []
    for state in states:
        shown_state = str(state.state)
        # A pending or firing alert that the run could not judge stays pending or firing.
        if state.state is State.QUIET and not state.is_judged:
            shown_state = "not judged"
        # Without a value, nothing was compared with the limit.
        limit = "-" if state.value is None else write_number(state.threshold)
        rows.append(
            (
                state.alert,
                state.segment,
                shown_state,
                write_number(state.value),
                limit,
                show_instant(state.judged_slot),
                write_prose(state.reason),
            )
        )
    return rows


def _without_first(rows: Iterable[Sequence[object]]) -> list[Sequence[object]]:
    """Return the rows without the first cell of each."""
    return [cells[1:] for cells in rows]


def linked_rows(rows: Iterable[Sequence[str]], urls: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the rows with links from the item in the first cell to the item's page."""
    return [(link_to(urls.get(item), item), *others) for item, *others in rows]


def _summary_rows(page: RunPage) -> list[tuple[str, ...]]:
    """Return the table of means: segment, metric, mean, its change, p05, median, users."""
    rows: list[tuple[str, ...]] = []
    for summary, mean_change in zip(page.run.summaries, page.mean_changes, strict=True):
        shown_change = "-" if mean_change is None else f"{mean_change:+.4f}"
        cells = (
            summary.segment,
            summary.metric,
            summary.mean,
            shown_change,
            summary.value("p05"),
            summary.value("p50"),
            summary.n,
        )
        rows.append(tuple(write_cell(cell, show_instant) for cell in cells))
    return rows


def _coverage_rows(coverage: Coverage) -> list[tuple[str, ...]]:
    """Return the table of coverage: segment, asked users, compared users, reasons by arm."""
    rows: list[tuple[str, ...]] = []
    for row in coverage.rows:
        reasons = ", ".join(
            f"{count:,} {reason} in {arm}" for (arm, reason), count in row.users_by_reason.items()
        )
        rows.append((row.segment, f"{row.asked:,}", f"{row.paired:,}", reasons))
    return rows


def _escape_control_characters(value: object) -> object:
    """Escape control characters of a text. They could hide text, or change its direction."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_controls(value)
    return value


@cache
def _templates() -> jinja2.Environment:
    """Return the environment with the filters and functions that templates use."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("monitor.web"),
        autoescape=True,
        finalize=_escape_control_characters,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "prose": write_prose,
        "number": write_number,
        "duration": show_duration,
        "instant": show_instant,
        "count": "{:,}".format,
        "rows_of": _rows_of,
        "without_first": _without_first,
    }
    environment.globals |= {
        "has_server": True,  # False in reports, which have no forms, updates or keys
        "presentation": presentation,
        "unpaired_texts": unpaired,
        "unpaired_tables": unpaired_presentation,
        "series_chart": series_chart,
        "distribution_chart": distribution_chart,
        "coverage_chart": coverage_chart,
        "drop_chart": drop_chart,
        "segment_chart": segment_chart,
        "user_chart": user_chart,
        "draw_sparkline": draw_sparkline,
        "draw_slopes": draw_slopes,
        "draw_thumbnail": draw_thumbnail,
        "run_notes": write_run_notes,
        "summary_rows": _summary_rows,
        "state_rows": _state_rows,
        "write_health": write_health,
        "write_other_value": write_other_value,
        "write_receivers": write_receivers,
        "coverage_rows": _coverage_rows,
        "table": _write_table,
        "link_to": link_to,
        "linked_rows": linked_rows,
        "comparison_url": addresses.comparison_url,
        "run_url": addresses.run_url,
        "user_url": addresses.user_url,
        "alert_url": addresses.alert_url,
        "alerts_url": addresses.alerts_url,
        "periods": tuple(PERIODS),
        "severities": tuple(Severity),
        # Each page extends this template. In a report, pages extend another template instead, which
        # makes a section of each page.
        "layout": "layout.html",
    }
    return environment
