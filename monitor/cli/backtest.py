"""The command `backtest`: what other rules would have made of stored runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import output
from monitor.cli.on_call import transition_dict
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_period

if TYPE_CHECKING:
    from markupsafe import Markup

    from monitor.model.alerts import Transition
    from monitor.model.pages import FiringChange
    from monitor.model.rules import Subject
    from monitor.service.analysis.backtest import Backtest

_CHANGES = "slot alert segment from to value> threshold> reason"
_MOST_POINTS = 240


def backtest(  # noqa: PLR0913 - the command's options
    comparisons: Annotated[
        list[str] | None, typer.Argument(help="Names of comparisons; default: all.")
    ] = None,
    *,
    rules: Annotated[
        Path,
        typer.Option(
            "--rules",
            "-r",
            help="YAML file with rules: (and false_alarm_every:), or a whole configuration.",
        ),
    ],
    start: Annotated[
        str | None, typer.Option("--from", help="First slot that is listed, ISO 8601.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last slot, ISO 8601, included.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write it to this HTML file too, with charts.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List the pages that other rules would have sent.

    Over the stored runs, beside the pages that were sent. Every stored run is judged again in
    order, those before --from too, since rules learn from them. Nothing is stored or sent. Exit 0
    whatever is found, 2 for a file or name that is wrong."""
    from monitor.service.analysis.backtest import backtest_rules as judge_again
    from monitor.settings.excerpt import load_database_settings
    from monitor.settings.loader import load_with_rules
    from monitor.settings.translation import to_comparison
    from monitor.storage import opened_store

    first, last = parse_period(start, end)
    if html is not None:
        output.require_writable(html)
    chosen = [to_comparison(each) for each in load_with_rules(config, rules, comparisons or ())]
    with opened_store(load_database_settings(config).database) as store:
        found = [judge_again(each, store, start=first, end=last) for each in chosen]
    if html is not None:
        output.write_page(
            html, f"backtest of {rules.name}", "backtest.html", [_as_page(each) for each in found]
        )
    for each in found:
        if as_json:
            output.print_json(_as_dict(each))
        else:
            _print(each)


def _announced(transitions: Iterable[Transition]) -> list[Transition]:
    return [each for each in transitions if each.is_announced]


def _pages(transitions: Iterable[Transition]) -> Counter[str]:
    return Counter(each.alert for each in transitions if each.is_start)


def _as_dict(found: Backtest) -> dict[str, object]:
    would, did = _pages(found.transitions), _pages(found.stored)
    return {
        "comparison": found.comparison.name,
        "runs": {status.value: count for status, count in found.runs.items()},
        "rules": {
            rule.alert: {
                "pages": would[rule.alert],
                "runs_not_judged": found.lacking.get(rule.alert, 0),
            }
            for rule in found.comparison.judging.rules
        },
        "stored_rules": {alert: {"pages": count} for alert, count in did.items()},
        "changes": [transition_dict(each) for each in _announced(found.transitions)],
        "stored_changes": [transition_dict(each) for each in _announced(found.stored)],
    }


def _print(found: Backtest) -> None:
    output.print_line(_runs_line(found))
    if changes := _announced(found.transitions):
        output.print_records(
            map(transition_dict, changes),
            _CHANGES,
            as_json=False,
            title="These rules would have sent",
        )
    output.print_table(
        ("alert", "pages with these rules>", "pages that were sent or shown>"), _page_rows(found)
    )
    for line in _lacking_lines(found):
        output.print_line(line)


def _runs_line(found: Backtest) -> str:
    counts = ", ".join(f"{count:,} {status}" for status, count in found.runs.items())
    return (
        f"{found.comparison.name}: {sum(found.runs.values()):,} stored runs judged "
        f"again{f' ({counts})' if counts else ''}"
    )


def _page_rows(found: Backtest) -> list[tuple[str, str, str]]:
    would, did = _pages(found.transitions), _pages(found.stored)
    known = dict.fromkeys(rule.alert for rule in found.comparison.judging.rules)
    return [
        (alert, f"{would[alert]:,}" if alert in known else "-", f"{did[alert]:,}")
        for alert in known | dict.fromkeys(did)
    ]


def _lacking_lines(found: Backtest) -> Iterator[str]:
    for alert, count in found.lacking.items():
        metric, statistic = next(
            each.subject for each in found.comparison.judging.rules if each.alert == alert
        )
        yield (
            f"{alert} could not be judged in {count:,} of them: {statistic} of {metric} was not "
            "summarized then, and neither the lists nor the scores that it takes are kept"
        )


def _as_page(found: Backtest) -> dict[str, object]:
    changes = [
        ("These rules would have sent", found.transitions),
        ("What was sent or shown", found.stored),
    ]
    return {
        "found": found,
        "lines": [_runs_line(found), *_lacking_lines(found)],
        "pages": _page_rows(found),
        "charts": [
            (f"{each.statistic} of {each.metric}, all", _draw(found, each))
            for each in found.measured
        ],
        "changes": [
            (title, output.cells_of(map(transition_dict, _announced(made)), _CHANGES))
            for title, made in changes
        ],
    }


def _draw(found: Backtest, subject: Subject) -> Markup:
    """What rules look at, over all users, and when alerts about it fire in any segment: with these rules, and then."""
    from monitor.charts.time_chart import Level, Point, Span, draw_series
    from monitor.model.rules import Direction, FixedLimit
    from monitor.web.pages.comparison import alert_spans

    slots = list(found.measured[subject].items())
    rules = [rule for rule in found.comparison.judging.similarity_rules if rule.subject == subject]
    spans = [
        Span(
            start=each.start,
            end=each.end,
            name=f"{each.alert} {said} for {each.segment}",
            kind=kind,
        )
        for made, said, kind in (
            (found.stored, "fired", "silenced"),
            (found.transitions, "would fire", "firing"),
        )
        for each in alert_spans(_firings(made, subject), (), min(found.measured[subject]))
    ]
    # Of many runs each group of neighbours is shown by the one that is worst for the rules.
    step, sign = -(-len(slots) // _MOST_POINTS), -1 if rules[0].direction is Direction.ABOVE else 1
    groups = [slots[start : start + step] for start in range(0, len(slots), step)]
    shown = [
        min(group, key=lambda each: math.inf if each[1] is None else sign * each[1])
        for group in groups
    ]
    return draw_series(
        [
            Point(at=at, value=value, note=f"{output.instant(at)}: {output.number(value)}")
            for at, value in shown
        ],
        label=f"{subject.statistic} of {subject.metric} over {len(slots):,} runs",
        levels=[
            Level(value=each.threshold, name=each.alert, kind="limit")
            for each in rules
            if isinstance(each.limit, FixedLimit)
        ],
        spans=spans,
    )


def _firings(made: Iterable[Transition], subject: Subject) -> Iterator[FiringChange]:
    from monitor.model.pages import FiringChange

    for each in made:
        if (each.metric, each.statistic) == subject and (each.is_start or each.is_end):
            yield FiringChange(
                alert=each.alert,
                segment=each.segment,
                slot=each.slot,
                is_start=each.is_start,
                key=None,
            )
