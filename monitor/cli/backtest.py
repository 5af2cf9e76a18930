"""The command `backtest`. It judges stored runs by other rules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.completion import DEFAULT_CONFIG, complete_comparisons
from monitor.cli.output import (
    cells_of,
    print_json,
    print_line,
    print_objects,
    print_table,
    require_writable,
    write_page,
)
from monitor.cli.parameters import AsJson, Config, HtmlFile, Since, Until, parse_period
from monitor.model.instants import format_second
from monitor.texts.planning import write_judged_again, write_lacking
from monitor.texts.wording import write_number

if TYPE_CHECKING:
    from markupsafe import Markup

    from monitor.model.alerts import Transition
    from monitor.model.rules import Direction, Subject
    from monitor.service.analysis.backtest import Backtest

_CHANGE_COLUMNS = "slot alert segment from_state to_state value> threshold> reason"
_MOST_POINTS = 240


def backtest(  # noqa: PLR0913 - the command's options
    comparisons: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMPARISON...",
            autocompletion=complete_comparisons,
            help="Names of comparisons. Default: all.",
        ),
    ] = None,
    *,
    rules: Annotated[
        Path,
        typer.Option(
            "--rules",
            "-r",
            help="YAML file with the key `rules` and, optionally, the key `false_alarm_every`. "
            "The file may also be a complete configuration.",
        ),
    ],
    since: Since = None,
    until: Until = None,
    html: HtmlFile = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List the alerts that new rules would have caused.

    The command also counts the alerts that were actually sent. Every stored run is judged again, in
    order. The command also judges the runs before --since, because rules learn from them. Nothing
    is stored or sent. The exit code is 0 for any result, and 2 for a wrong file or name.
    """
    from monitor.service.analysis.backtest import backtest_rules
    from monitor.settings.loader import load_with_rules
    from monitor.settings.translation import to_comparison
    from monitor.settings.unchecked_settings import load_database_settings
    from monitor.storage import opened_store

    first, last = parse_period(since, until)
    if html is not None:
        require_writable(html)
    compared = list(map(to_comparison, load_with_rules(config, rules, comparisons or ())))
    with opened_store(load_database_settings(config).database) as store:
        results = [
            backtest_rules(comparison, store, start=first, end=last) for comparison in compared
        ]
    if html is not None:
        pages = list(map(_as_page, results))
        write_page(html, f"backtest of {rules.name}", "backtest.html", pages)
    for result in results:
        if as_json:
            print_json(_as_dict(result))
        else:
            _print_backtest(result)


def _announced(transitions: Iterable[Transition]) -> list[Transition]:
    return [change for change in transitions if change.is_announced]


def _count_starts(transitions: Iterable[Transition]) -> Counter[str]:
    """Return how often each alert started."""
    return Counter(change.alert for change in transitions if change.is_start)


def _as_dict(result: Backtest) -> dict[str, object]:
    """Return the result as JSON."""
    new_starts = _count_starts(result.transitions)
    stored_starts = _count_starts(result.stored)
    rules = {}
    for rule in result.comparison.judging.rules:
        lacking = result.lacking.get(rule.alert, 0)
        rules[rule.alert] = {"starts": new_starts[rule.alert], "runs_not_judged": lacking}
    return {
        "comparison": result.comparison.name,
        "runs_by_status": {status.value: count for status, count in result.runs.items()},
        "rules": rules,
        "stored_rules": {alert: {"starts": count} for alert, count in stored_starts.items()},
        "transitions": _announced(result.transitions),
        "stored_transitions": _announced(result.stored),
    }


def _print_backtest(result: Backtest) -> None:
    """Print the changes that the rules would have made, and the starts of each alert."""
    print_line(_runs_line(result))
    if changes := _announced(result.transitions):
        print_objects(
            map(asdict, changes),
            _CHANGE_COLUMNS,
            as_json=False,
            title="These rules would have sent",
        )
    print_table(
        ("alert", "alerts with these rules>", "alerts that were sent or shown>"),
        _start_rows(result),
    )
    for line in _lacking_lines(result):
        print_line(line)


def _runs_line(result: Backtest) -> str:
    return write_judged_again(result.comparison.name, result.runs.items())


def _start_rows(result: Backtest) -> list[tuple[str, str, str]]:
    """Return a row for each alert: how often it starts by the new rules, and how often it did."""
    new_starts = _count_starts(result.transitions)
    stored_starts = _count_starts(result.stored)
    alerts = dict.fromkeys(rule.alert for rule in result.comparison.judging.rules)
    rows = [(alert, f"{new_starts[alert]:,}", f"{stored_starts[alert]:,}") for alert in alerts]
    for alert, count in stored_starts.items():
        if alert not in alerts:
            rows.append((alert, "-", f"{count:,}"))
    return rows


def _lacking_lines(result: Backtest) -> Iterator[str]:
    subjects = {rule.alert: rule.subject for rule in result.comparison.judging.rules}
    for alert, count in result.lacking.items():
        metric, statistic = subjects[alert]
        yield write_lacking(alert, metric, statistic, count)


def _as_page(result: Backtest) -> dict[str, object]:
    """Return the values of the template ``backtest.html`` for one comparison."""
    changes = []
    for title, transitions in (
        ("These rules would have sent", result.transitions),
        ("What was sent or shown", result.stored),
    ):
        objects = map(asdict, _announced(transitions))
        changes.append((title, cells_of(objects, _CHANGE_COLUMNS)))
    charts = []
    for subject in result.measured:
        title = f"{subject.statistic} of {subject.metric}, all"
        charts.append((title, _draw_statistic(result, subject)))
    return {
        "backtest": result,
        "lines": [_runs_line(result), *_lacking_lines(result)],
        "starts": _start_rows(result),
        "charts": charts,
        "changes": changes,
    }


def _draw_statistic(result: Backtest, subject: Subject) -> Markup:
    """Draw a statistic over all users. Mark when its alerts fired or would have fired."""
    from monitor.charts.time_chart import Level, Point, Span, draw_series
    from monitor.model.rules import FixedLimit
    from monitor.web.pages.comparison import alert_spans

    values = result.measured[subject]
    spans = []
    # The kind of a span is its color: alerts that fired are gray, as silences are on other pages.
    for transitions, verb, kind in (
        (result.stored, "fired", "silenced"),
        (result.transitions, "would fire", "firing"),
    ):
        changes = _starts_and_ends(transitions, subject)
        for firing in alert_spans(changes, (), since=min(values)):
            name = f"{firing.alert} {verb} for {firing.segment}"
            spans.append(Span(start=firing.started_at, end=firing.ended_at, name=name, kind=kind))
    rules = [rule for rule in result.comparison.judging.similarity_rules if rule.subject == subject]
    levels = []
    for rule in rules:
        if isinstance(rule.limit, FixedLimit):
            levels.append(Level(value=rule.threshold, name=rule.alert, kind="limit"))
    points = []
    for at in _worst_of_groups(values, rules[0].direction):
        note = f"{format_second(at)}: {write_number(values[at])}"
        points.append(Point(at=at, value=values[at], note=note))
    return draw_series(
        points,
        label=f"{subject.statistic} of {subject.metric} over {len(values):,} runs",
        levels=levels,
        spans=spans,
    )


def _worst_of_groups(
    values: Mapping[datetime, float | None], direction: Direction
) -> list[datetime]:
    """Return the slots to draw. If there are too many, return the worst slot of each group.

    A group has neighbouring slots. There are at most _MOST_POINTS groups.
    """

    def worst_first(slot: datetime) -> float:
        value = values[slot]
        if value is None:
            return math.inf  # a slot without a value is drawn only if its group has no value
        return value if direction == "below" else -value

    slots = list(values)
    step = math.ceil(len(slots) / _MOST_POINTS)
    groups = (slots[start : start + step] for start in range(0, len(slots), step))
    return [min(group, key=worst_first) for group in groups]


def _starts_and_ends(transitions: Iterable[Transition], subject: Subject) -> Iterator[Transition]:
    for transition in transitions:
        is_of_subject = (transition.metric, transition.statistic) == subject
        if is_of_subject and (transition.is_start or transition.is_end):
            yield transition
