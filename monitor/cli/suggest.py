"""The command `suggest`: thresholds for a wanted rate of false pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import instant, pick, print_json, print_line, print_records
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_span

if TYPE_CHECKING:
    from datetime import timedelta

    from monitor.service.analysis.backtest import Suggestion


def suggest(  # noqa: PLR0913 - a command is all of its options
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    every: Annotated[
        str | None,
        typer.Option("--false-alarm-every", help="Accepted time between false pages, such as 90d; default: the comparison's."),
    ] = None,
    statistic: Annotated[
        list[str] | None, typer.Option(help="mean, p05, share_below(0) ...; may be given again. Default: mean and p05.")
    ] = None,
    segment: Annotated[list[str] | None, typer.Option(help="A segment, or each; may be given again. Default: all.")] = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print only the rules, ready to paste.")] = False,
) -> None:
    """Propose thresholds from the stored healthy runs.

    Shows what each would have caught. All of them together are to page falsely once in the accepted time. Fixed thresholds do
    not follow the seasons or a slow change that is wanted: rules with `learned:` do. Exit 2 when nothing is stored to learn
    from.
    """
    from monitor.service.analysis.backtest import STATISTICS, configured_comparison
    from monitor.service.analysis.backtest import suggest_thresholds as propose
    from monitor.settings.loader import load_settings
    from monitor.storage import opened_store

    settings = load_settings(config)
    what, interval = configured_comparison(settings, comparison, None if every is None else parse_span(every))
    with opened_store(settings.database) as store:
        found = propose(
            what, store.history, statistics=statistic or STATISTICS, segments=segment or ("all",), interval=interval
        )
    if as_json:
        for each in found:
            print_json(_as_dict(each))
        return
    if not as_yaml:
        _print(found, what.judging.runs_a_false_page * interval)
    _print_yaml(found)


def _as_dict(found: Suggestion) -> dict[str, object]:
    rule, is_proposed = found.rule, found.obstacle is None
    return {
        **pick(rule, "alert", "metric"),
        "statistic": str(rule.statistic),
        "segment": found.segment,
        "direction": rule.direction,
        "threshold": rule.threshold if is_proposed else None,
        "min_users": rule.min_users,
        **pick(found, "runs", "expected"),
        "seen_with_50_percent": found.usually,
        "seen_with_95_percent": found.nearly_always,
        "pages": [pick(each, "slot", "value") for each in found.caught] if is_proposed else None,
        **pick(found, "obstacle", "note"),
    }


def _print(found: tuple[Suggestion, ...], every: timedelta) -> None:
    names = "metric statistic segment runs> expected> direction threshold>"
    columns = f"{names} seen_with_50_percent> seen_with_95_percent> obstacle note"
    print_records(map(_as_dict, found), columns, as_json=False)
    print_line(f"all together: one false page in {every.total_seconds() / 86400:,.3g} days")
    print_line("seen with 50 or 95 percent: the change that one run shows with that chance")
    for each in found:
        if each.caught:
            slots = ", ".join(instant(page.slot) for page in each.caught)
            print_line(f"{each.rule.alert} would have paged at {slots}")
    print_line()


def _print_yaml(found: tuple[Suggestion, ...]) -> None:
    # JSON strings and numbers are YAML too.
    proposed = [each for each in found if each.obstacle is None]
    if not proposed:
        print_line("rules: []  # nothing can be proposed yet")
        return
    print_line("rules:")
    for each in proposed:
        rule = each.rule
        segments = "" if rule.segments == "all" else f", segments: {json.dumps([each.segment], ensure_ascii=False)}"
        statistic = "" if str(rule.statistic) == "mean" else f", statistic: {json.dumps(str(rule.statistic))}"
        limit = f"{rule.direction}: {rule.threshold:.4f}, min_users: {rule.min_users}"
        print_line(f"  - {{alert: {rule.alert}, metric: {json.dumps(rule.metric)}{statistic}{segments}, {limit}}}")
