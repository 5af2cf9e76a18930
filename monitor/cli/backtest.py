"""The command `backtest`: what other rules would have made of stored runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.on_call import transition_dict
from monitor.cli.output import print_json, print_line, print_records, print_table
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_period

if TYPE_CHECKING:
    from monitor.model import Transition
    from monitor.service.analysis.rule_backtest import Backtest


def backtest(
    comparisons: Annotated[list[str] | None, typer.Argument(help="Names of comparisons; default: all.")] = None,
    *,
    rules: Annotated[
        Path, typer.Option("--rules", "-r", help="YAML file with rules: (and false_alarm_every:), or a whole configuration.")
    ],
    start: Annotated[str | None, typer.Option("--from", help="First slot that is listed, ISO 8601.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last slot, ISO 8601, included.")] = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List the pages that other rules would have sent.

    Over the stored runs, beside the pages that were sent. Every stored run is judged again in order, those before --from too,
    since rules learn from them. Nothing is stored or sent. Exit 0 whatever is found, 2 for a file or name that is wrong.
    """
    from monitor.service.analysis.rule_backtest import Period
    from monitor.service.analysis.rule_backtest import backtest_rules as judge_again
    from monitor.settings.excerpt import load_database_settings
    from monitor.settings.loader import load_with_rules
    from monitor.settings.translation import to_comparison
    from monitor.storage import opened_store

    first, last = parse_period(start, end)
    chosen = [to_comparison(each) for each in load_with_rules(config, rules, comparisons or ())]
    with opened_store(load_database_settings(config).database) as store:
        found = [judge_again(each, store, Period(start=first, end=last)) for each in chosen]
    for each in found:
        if as_json:
            print_json(_as_dict(each))
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
            rule.alert: {"pages": would[rule.alert], "runs_not_judged": found.lacking.get(rule.alert, 0)}
            for rule in found.comparison.judging.rules
        },
        "stored_rules": {alert: {"pages": count} for alert, count in did.items()},
        "changes": [transition_dict(each) for each in _announced(found.transitions)],
        "stored_changes": [transition_dict(each) for each in _announced(found.stored)],
    }


def _print(found: Backtest) -> None:
    counts = ", ".join(f"{count:,} {status}" for status, count in found.runs.items())
    print_line(
        f"{found.comparison.name}: {sum(found.runs.values()):,} stored runs judged again{f' ({counts})' if counts else ''}"
    )
    if changes := _announced(found.transitions):
        columns, title = "slot alert segment from to value> threshold> reason", "These rules would have sent"
        print_records(map(transition_dict, changes), columns, as_json=False, title=title)
    would, did = _pages(found.transitions), _pages(found.stored)
    alerts = dict.fromkeys([*(rule.alert for rule in found.comparison.judging.rules), *did])
    known = {rule.alert for rule in found.comparison.judging.rules}
    rows = ((alert, f"{would[alert]:,}" if alert in known else "-", f"{did[alert]:,}") for alert in alerts)
    print_table(("alert", "pages with these rules>", "pages that were sent or shown>"), rows)
    for alert, count in found.lacking.items():
        metric, statistic = next(each.subject for each in found.comparison.judging.rules if each.alert == alert)
        print_line(
            f"{alert} could not be judged in {count:,} of them: {statistic} of {metric} was not summarized then, "
            "and neither the lists nor the scores that it takes are kept"
        )
