"""Templates: everything shown is escaped, what could turn the writing around is spelled out."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from operator import attrgetter
from typing import Any

import jinja2
from markupsafe import Markup, escape

from monitor.charts.bars import Bar, draw_bars, draw_heat_map, draw_waterfall
from monitor.charts.slope_chart import draw_slopes, draw_thumbnail
from monitor.charts.svg import element, link_to, read_style
from monitor.charts.time_chart import Level, Point, Span, draw_series, draw_sparkline, draw_stack
from monitor.model.explanation import Explanation
from monitor.model.pages import UserRun
from monitor.model.rankings import Coverage
from monitor.presentation import arm_rows, explanation_tables, explanation_title
from monitor.redaction import escape_controls
from monitor.web.pages import site as addresses
from monitor.web.pages.comparison import PERIODS, ComparisonPage
from monitor.web.pages.run import RunPage

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def render(template: str, **shown: object) -> str:
    """The page that this template makes of what it is given."""
    return _templates().get_template(template).render(**shown)


@cache
def read_static(name: str) -> str:
    """The style sheet or the script."""
    if name == "rankwatch.css":
        return read_style()
    return resources.files("monitor.web").joinpath("static", name).read_text(encoding="utf-8")


def series_chart(page: ComparisonPage) -> Markup:
    """The comparison's chart over time: a point a run, which leads to it."""
    points = [
        Point(
            at=each.slot,
            value=each.mean,
            note=f"{show_instant(each.slot)}: {show_number(each.mean)}"
            + ("" if each.status == "ok" else f" ({each.status})"),
            link=addresses.run_url(page.name, each.slot),
            is_marked=each.low is not None and each.mean is not None and each.mean < each.low,
            low=each.low,
            high=each.high,
            expected=each.expected,
        )
        for each in page.points
    ]
    levels = [Level(value=value, name=name, kind="limit") for name, value in page.limits]
    levels += (
        []
        if page.by_chance is None
        else [Level(value=page.by_chance, name="by chance", kind="chance")]
    )
    spans = [
        Span(start=each.start, end=each.end, name=f"{each.alert} fires", kind="firing")
        for each in page.spans
    ]
    spans += [
        Span(
            start=each.starts_at,
            end=each.ends_at,
            name=f"silenced: {each.comment}",
            kind="silenced",
        )
        for each in page.silences
    ]
    spans += [Span(start=at, end=at, name=what, kind="mark") for at, what in page.marks]
    label = f"{page.metric} of {page.segment} over time, {len(points)} runs"
    return draw_series(points, label=label, levels=levels, spans=spans)


def distribution_chart(page: ComparisonPage) -> Markup:
    """How scores were distributed, a column a run."""
    if not page.distribution:
        return Markup()
    last = page.distribution[-1][1]
    found = {
        slot: each
        for slot, each in page.distribution
        if (each.low, each.high) == (last.low, last.high)
    }
    label = f"distribution of {page.metric} over {len(found)} runs"
    ends = (show_instant(min(found)), show_instant(max(found)))
    return draw_heat_map(
        [each.counts for each in found.values()], last.low, last.high, label=label, ends=ends
    )


def coverage_chart(page: ComparisonPage) -> Markup:
    """Shares of users that lacked a list or had an imperfect one, by arm and reason."""
    rows = [row for _, row in page.coverage]
    shares = {
        f"{arm}: {reason}": [row.reasons.get((arm, reason), 0) / max(1, row.asked) for row in rows]
        for arm, reason in sorted({each for row in rows for each in row.reasons})
    }
    drawn = draw_stack(
        [slot for slot, _ in page.coverage],
        shares,
        label="users without a list, or with an imperfect one",
    )
    keys = (
        element("span", f"{name}, {of_runs[-1]:.1%} now", class_=f"key s{n % 8}")
        for n, (name, of_runs) in enumerate(shares.items())
    )
    return drawn and drawn + element("p", *keys, class_="keys")


def drop_chart(explanation: Explanation) -> Markup:
    """From the similarity before to that of now, piece by piece."""
    if explanation.before is None:
        return Markup()
    pieces = [
        Bar(name=str(cause.part), amount=cause.amount, figure=f"{cause.amount:+.4f}")
        for cause in explanation.causes
    ]
    before = Bar(
        name="distance before",
        amount=explanation.before,
        figure=show_number(explanation.before),
        kind="total",
    )
    now = Bar(
        name="distance now",
        amount=explanation.now,
        figure=show_number(explanation.now),
        kind="total",
    )
    return draw_waterfall(before, pieces, now, label="the drop, piece by piece")


def segment_chart(explanation: Explanation) -> Markup:
    """What each segment of the leading dimension adds to the drop."""
    if not explanation.falls:
        return Markup()
    dimension = explanation.falls[0].segment.partition("=")[0]
    leading = [fall for fall in explanation.falls if fall.segment.partition("=")[0] == dimension][
        :12
    ]
    bars = [
        Bar(
            name=fall.segment,
            amount=fall.whole,
            figure=f"{fall.whole:+.4f}, {fall.share:.0%} of all",
        )
        for fall in leading
    ]
    return draw_bars(bars, label=f"what each {dimension} adds to the drop")


def user_chart(name: str, user: str, history: Sequence[UserRun], metric: str) -> Markup:
    """One user's scores of one metric over runs."""
    points = [
        Point(
            at=each.slot,
            value=each.scores.get(metric),
            note=f"{show_instant(each.slot)}: {show_number(each.scores.get(metric))}",
            link=addresses.user_url(name, user, each.slot),
        )
        for each in history
    ]
    return draw_series(points, label=f"{metric} of this user over {len(points)} runs")


def show_number(value: float | None) -> str:
    """A score."""
    return "-" if value is None else f"{value:.4f}"


def show_duration(seconds: float | None) -> str:
    """A span of time in its largest unit."""
    if seconds is None:
        return "never"
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def show_instant(value: datetime | None) -> str:
    """A time in UTC."""
    return "never" if value is None else f"{value:%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", kind: str = ""
) -> Markup:
    """A table; column NAME> holds numbers, ``rows`` stack on telephones.

    Templates take four times as long.
    """
    names = [escape(column.rstrip(">")) for column in columns]
    classes = [' class="n"' if column.endswith(">") else "" for column in columns]
    heads = "".join(
        [
            f'<th scope="col"{class_}>{name}</th>'
            for name, class_ in zip(names, classes, strict=True)
        ]
    )
    begins = [
        f'<td data-label="{name}"{class_}>' if kind else f"<td{class_}>"
        for name, class_ in zip(names, classes, strict=True)
    ]
    lines = (
        [f"{begin}{escape(_spell_out(cell))}</td>" for begin, cell in zip(begins, row, strict=True)]
        for row in rows
    )
    body = "".join([f"<tr>{''.join(line)}</tr>\n" for line in lines])
    whole = f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>"
    drawn = element("table", Markup(whole), class_=kind or None)  # noqa: S704 - each part is escaped
    return element(
        "div", drawn, class_="scroll", tabindex=0, role="region", aria_label=caption or "table"
    )


def _rows_of(shown: Iterable[object], *names: str) -> list[tuple[str, ...]]:
    """A row of a table for each of what is shown: its attributes of these names, a dot before those of an attribute."""
    return [tuple(_show(attrgetter(name)(each)) for name in names) for each in shown]


def _show(value: object) -> str:
    if isinstance(value, datetime):
        return show_instant(value)
    if isinstance(value, float):
        return show_number(value)
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def linked_rows(rows: Iterable[Sequence[str]], urls: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The rows, whose first cell is an item that leads to its own page."""
    return [(link_to(urls.get(item), item), *others) for item, *others in rows]


def _summary_rows(page: RunPage) -> list[tuple[str, ...]]:
    return [
        (
            each.segment,
            each.metric,
            mean,
            "-" if moved is None else f"{moved:+.4f}",
            p05,
            median,
            f"{each.n:,}",
        )
        for each, moved in zip(page.summaries, page.moved, strict=True)
        for mean, p05, median in [
            map(show_number, (each.mean, each.value("p05"), each.value("p50")))
        ]
    ]


def _coverage_rows(coverage: Coverage) -> list[tuple[str, ...]]:
    return [
        (row.segment, f"{row.asked:,}", f"{row.paired:,}", reasons)
        for row in coverage.rows
        for reasons in [
            ", ".join(
                f"{count:,} {reason} in {arm}" for (arm, reason), count in row.reasons.items()
            )
        ]
    ]


def _spell_out(value: object) -> object:
    return (
        escape_controls(value)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("monitor.web"),
        autoescape=True,
        finalize=_spell_out,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Any] = {
        "number": show_number,
        "duration": show_duration,
        "instant": show_instant,
        "count": "{:,}".format,
        "rows_of": _rows_of,
        "without_first": lambda rows: [cells[1:] for cells in rows],
    }
    environment.filters.update(filters)
    for each in (
        *(
            series_chart,
            distribution_chart,
            coverage_chart,
            drop_chart,
            segment_chart,
            user_chart,
            draw_sparkline,
            draw_slopes,
        ),
        *(
            draw_thumbnail,
            arm_rows,
            explanation_tables,
            explanation_title,
            _summary_rows,
            _coverage_rows,
            _table,
            link_to,
        ),
        *(
            linked_rows,
            addresses.comparison_url,
            addresses.run_url,
            addresses.user_url,
            addresses.alert_url,
        ),
    ):
        environment.globals[each.__name__.lstrip("_")] = each
    environment.globals |= {"periods": tuple(PERIODS), "layout": "layout.html"}
    return environment
