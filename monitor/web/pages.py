"""The HTML pages: a function for each, which gives its template what it shows; everything shown is escaped.

A new page is a template, a function here, and its route in `monitor.web.app`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache, partial
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from monitor.model import AlertState, CoverageRow, LatestRun, format_instant
from monitor.presentation import arm_rows, explanation_tables, explanation_title, score_by_chance
from monitor.redaction import escape_controls


def render_index(latest: Sequence[LatestRun], notice: str | None = None) -> str:
    """All comparisons with their newest runs, and links to what machines read; ``notice`` stands before them."""
    return _templates().get_template("index.html").render(latest=latest, notice=notice)


def render_comparison(latest: LatestRun) -> str:
    """One comparison: its newest run, alerts, explanation, similarity, arms and coverage by segment."""
    shown = {
        "states": map(_state_row, latest.states),
        "summaries": _summary_rows(latest),
        "arms": arm_rows(latest.arm_scores),
        "coverage": map(_coverage_row, latest.coverage.rows if latest.coverage else ()),
    }
    return _templates().get_template("comparison.html").render(latest=latest, run=latest.run, **shown)


def _state_row(state: AlertState) -> tuple[str, ...]:
    verdict = f"{state.outcome}: {state.reason}"
    return (state.alert, state.segment, state.state, _instant(state.since), state.severity, verdict)


def _summary_rows(latest: LatestRun) -> Iterator[tuple[str, ...]]:
    for summary in latest.summaries:
        figures = (summary.mean, summary.value("p05"), summary.value("p50"))
        by_chance = score_by_chance(summary.metric, latest.run)
        yield (summary.segment, summary.metric, *map(_number, figures), _count(summary.n), _number(by_chance))


def _coverage_row(row: CoverageRow) -> tuple[str, ...]:
    reasons = ", ".join(f"{_count(count)} {reason} in {arm}" for (arm, reason), count in row.reasons.items())
    return row.segment, _count(row.asked), _count(row.paired), reasons


def _firing(states: Iterable[AlertState]) -> str:
    firing = [f"{state.alert} [{state.segment}]" for state in states if state.state == "firing"]
    return "firing: " + ", ".join(firing) if firing else "none firing"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _count(value: int) -> str:
    return f"{value:,}"


def _instant(value: datetime | None) -> str:
    return "never" if value is None else format_instant(value)


def _spell_out(value: object) -> object:
    # What could turn the writing around is spelled out; markup of templates stays as it is.
    return escape_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


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
    environment.filters.update(count=_count, firing=_firing, instant=_instant, path_part=partial(quote, safe=""))
    environment.filters.update((each.__name__, each) for each in (explanation_tables, explanation_title))
    return environment
