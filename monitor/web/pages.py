"""The HTML pages: the index of comparisons, and the page of each, to which alerts link."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import datetime
from urllib.parse import quote

from monitor.model import AlertState, CoverageRow, Explanation, LatestRun, Run, Summary, format_instant
from monitor.presentation import ArmRow, arm_rows, drop_bounds, explanation_tables, explanation_title, score_by_chance
from monitor.redaction import escape_controls

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body>
{body}
</body>
</html>
"""


def escape_html(text: str) -> str:
    """The text as HTML shows it, and with what could turn its writing around spelled out."""
    return html.escape(escape_controls(text))


def render_index(latest: Sequence[LatestRun], standing: str | None = None) -> str:
    """All comparisons with their newest runs, and links to what machines read; ``standing`` is told before."""
    rows = (
        (
            _link(f"comparisons/{quote(each.run.comparison, safe='')}", each.run.comparison),
            _instant(each.run.slot),
            escape_html(each.run.status),
            _worst_state(each.states),
        )
        for each in latest
    )
    links = "\n".join(
        f"<li>{_link(path, path)}: {text}</li>"
        for path, text in (
            ("metrics", "what Prometheus scrapes"),
            ("-/healthy", "whether the process works"),
            ("-/ready", "whether it has its database and shows results"),
        )
    )
    table = _table(("comparison", "newest run", "status", "alerts"), rows) if latest else "<p>No run has ended yet.</p>"
    note = f"<p>{escape_html(standing)}</p>\n" if standing else ""
    body = f"<h1>rankwatch</h1>\n<p>Watches how far two recommenders drift apart.</p>\n{note}{table}\n<ul>\n{links}\n</ul>"
    return _PAGE.format(title="rankwatch", body=body)


def render_comparison(each: LatestRun) -> str:
    """One comparison: its newest run, alerts, explanation, similarity, arms and coverage by segment."""
    run = each.run
    reason = f"<p>{escape_html(run.reason)}</p>" if run.reason else ""
    parts = [
        f"<h1>{escape_html(run.comparison)}</h1>",
        f"<p>Newest run: slot {_instant(run.slot)}, {escape_html(run.status)}; last ok: {_instant(each.last_ok_slot)}.</p>{reason}",
        "<h2>Alerts</h2>",
        _table(
            ("alert", "segment", "state", "since", "severity", "last verdict"), (_state_row(state) for state in each.states)
        ),
        *_explanation(each.explanation),
        "<h2>Similarity</h2>",
        _table(
            ("segment", "metric", "mean", "p05", "median", "users", "by chance"),
            (_summary_row(run, summary) for summary in each.summaries),
        ),
        _chance(run),
        _relevance(each),
        "<h2>Each arm by itself</h2>",
        _table(("segment", "metric", "baseline", "candidate", "lists"), map(_arm_row, arm_rows(each.arm_scores))),
        "<h2>Coverage</h2>",
        _table(
            ("segment", "asked", "paired", "absent or imperfect"),
            map(_coverage_row, each.coverage.rows if each.coverage else ()),
        ),
        (
            f"<p>More: <code>rankwatch show {escape_html(run.comparison)}</code>, "
            f"<code>rankwatch alerts --comparison {escape_html(run.comparison)}</code></p>"
        ),
    ]
    return _PAGE.format(title=f"rankwatch: {escape_html(run.comparison)}", body="\n".join(parts))


def _explanation(explanation: Explanation | None) -> list[str]:
    if explanation is None:
        return []
    parts = [f"<h2>{escape_html(explanation_title(explanation))}</h2>", f"<p>{escape_html(explanation.sentence)}</p>"]
    for sheet in explanation_tables(explanation):
        head = [escape_html(column.removesuffix(">")) for column in sheet.columns]
        parts += [
            f"<h3>{escape_html(sheet.title)}</h3>",
            _table(head, ([escape_html(cell) for cell in row] for row in sheet.rows)),
        ]
    bounds = drop_bounds(explanation)
    return parts if bounds is None else [*parts, f"<p>{escape_html(bounds)}</p>"]


def _state_row(state: AlertState) -> tuple[str, ...]:
    texts = (state.alert, state.segment, state.state, _instant(state.since), state.severity, f"{state.outcome}: {state.reason}")
    return tuple(escape_html(text) for text in texts)


def _chance(run: Run) -> str:
    if run.k is None or run.catalogue_size is None:
        return ""
    return f"<p>By chance: two random lists of {run.k:,} from a catalogue of {run.catalogue_size:,} items.</p>"


def _relevance(each: LatestRun) -> str:
    run = each.run
    if run.labelled_at is not None:
        return f"<p>Relevance: labelled {_instant(run.labelled_at)}.</p>"
    if run.labels_until is None:
        return ""
    return f"<p>Relevance: waiting for labels until {_instant(run.labels_until)}; {each.unlabelled:,} runs wait.</p>"


def _summary_row(run: Run, summary: Summary) -> tuple[str, ...]:
    figures = (summary.mean, summary.value("p05"), summary.value("p50"))
    cells = (*(_number(figure) for figure in figures), f"{summary.n:,}", _number(score_by_chance(summary.metric, run)))
    return escape_html(summary.segment), escape_html(summary.metric), *cells


def _arm_row(row: ArmRow) -> tuple[str, ...]:
    return escape_html(row.segment), escape_html(row.metric), _number(row.baseline), _number(row.candidate), f"{row.n:,}"


def _coverage_row(row: CoverageRow) -> tuple[str, ...]:
    reasons = ", ".join(f"{count:,} {reason} in {arm}" for (arm, reason), count in row.reasons.items())
    return escape_html(row.segment), f"{row.asked:,}", f"{row.paired:,}", escape_html(reasons)


def _worst_state(states: Iterable[AlertState]) -> str:
    firing = [f"{state.alert} [{state.segment}]" for state in states if state.state == "firing"]
    return escape_html("firing: " + ", ".join(firing) if firing else "none firing")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return '<table border="1">\n' + "\n".join(lines) + "\n</table>"


def _link(path: str, text: str) -> str:
    return f'<a href="{escape_html(path)}">{escape_html(text)}</a>'


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _instant(value: datetime | None) -> str:
    return "never" if value is None else format_instant(value)
