"""Commands that plan rules: `suggest` thresholds for a wanted rate of false pages, `plan` how many users or runs it takes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.cli.output import instant, pick, print_json, print_line, print_records
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_span

if TYPE_CHECKING:
    from datetime import timedelta

    from monitor.model.comparison import Comparison
    from monitor.service.analysis.backtest import Suggestion
    from monitor.service.analysis.sample_size import PlanInputs, SampleSizePlan


def suggest(  # noqa: PLR0913 - a command is all of its options
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    every: Annotated[
        str | None,
        typer.Option(
            "--false-alarm-every",
            help="Accepted time between false pages, such as 90d; default: the comparison's.",
        ),
    ] = None,
    statistic: Annotated[
        list[str] | None,
        typer.Option(
            help="mean, p05, share_below(0) ...; may be given again. Default: mean and p05."
        ),
    ] = None,
    segment: Annotated[
        list[str] | None, typer.Option(help="A segment, or each; may be given again. Default: all.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Print only the rules, ready to paste.")
    ] = False,
) -> None:
    """Propose thresholds from the stored healthy runs.

    Shows what each would have caught. All of them together are to page falsely once in the accepted
    time. Fixed thresholds do not follow the seasons or a slow change that is wanted: rules with
    `learned:` do. Exit 2 when nothing is stored to learn from."""
    from monitor.service.analysis.backtest import STATISTICS, configured_comparison
    from monitor.service.analysis.backtest import suggest_thresholds as propose
    from monitor.settings.loader import load_settings
    from monitor.storage import opened_store

    settings = load_settings(config)
    what, interval = configured_comparison(
        settings, comparison, None if every is None else parse_span(every)
    )
    with opened_store(settings.database) as store:
        found = propose(
            what,
            store.history,
            statistics=statistic or STATISTICS,
            segments=segment or ("all",),
            interval=interval,
        )
    if as_json:
        print_json(*map(_suggestion_dict, found))
        return
    if not as_yaml:
        _print_suggestions(found, what.judging.runs_a_false_page * interval)
    _print_rules(found)


def _suggestion_dict(found: Suggestion) -> dict[str, object]:
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


def _print_suggestions(found: tuple[Suggestion, ...], every: timedelta) -> None:
    names = "metric statistic segment runs> expected> direction threshold>"
    columns = f"{names} seen_with_50_percent> seen_with_95_percent> obstacle note"
    print_records(map(_suggestion_dict, found), columns, as_json=False)
    print_line(f"all together: one false page in {every.total_seconds() / 86400:,.3g} days")
    print_line("seen with 50 or 95 percent: the change that one run shows with that chance")
    for each in found:
        if each.caught:
            slots = ", ".join(instant(page.slot) for page in each.caught)
            print_line(f"{each.rule.alert} would have paged at {slots}")
    print_line()


def _print_rules(found: tuple[Suggestion, ...]) -> None:
    # JSON strings and numbers are YAML too.
    proposed = [each for each in found if each.obstacle is None]
    if not proposed:
        print_line("rules: []  # nothing can be proposed yet")
        return
    print_line("rules:")
    for each in proposed:
        rule = each.rule
        segments = (
            ""
            if rule.segments == "all"
            else f", segments: {json.dumps([each.segment], ensure_ascii=False)}"
        )
        statistic = (
            ""
            if str(rule.statistic) == "mean"
            else f", statistic: {json.dumps(str(rule.statistic))}"
        )
        limit = f"{rule.direction}: {rule.threshold:.4f}, min_users: {rule.min_users}"
        print_line(
            (
                f"  - {{alert: {rule.alert}, metric: "
                f"{json.dumps(rule.metric)}{statistic}{segments}, {limit}}}"
            )
        )


def plan(  # noqa: PLR0913 - a command is all of its options
    comparison: Annotated[
        str | None, typer.Argument(help="One with stored runs; else give --sd and --wander.")
    ] = None,
    *,
    drop: Annotated[
        float | None, typer.Option(min=1e-9, help="Change of the mean that is to be seen.")
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            min=1e-9, max=1.0, help="Or the share of users whose lists go bad, such as 0.02."
        ),
    ] = None,
    to: Annotated[
        float | None,
        typer.Option(
            help=(
                "With --share: the score they fall to; default: that of lists with nothing in "
                "common."
            )
        ),
    ] = None,
    users: Annotated[
        int | None, typer.Option(min=2, max=10**9, help="Users a run: gives the runs it takes.")
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(min=1, max=10**6, help="Runs judged together: gives the users it takes."),
    ] = None,
    power: Annotated[
        float, typer.Option(min=0.01, max=0.999, help="Chance with which it is to be seen.")
    ] = 0.9,
    alpha: Annotated[
        float | None,
        typer.Option(
            min=1e-9,
            max=0.49,
            help="Chance of a false page a look; default: the comparison's budget.",
        ),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Default: the comparison's first.")] = None,
    segment: Annotated[str, typer.Option(help="Which users.")] = "all",
    mean: Annotated[
        float | None, typer.Option(help="Healthy mean, in place of the stored one.")
    ] = None,
    sd: Annotated[
        float | None,
        typer.Option(min=0.0, help="Deviation over users, in place of the stored one."),
    ] = None,
    wander: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Standard deviation of the true mean from run to run, likewise."
        ),
    ] = None,
    learned: Annotated[
        int | None, typer.Option(min=2, max=10**6, help="Healthy runs before, likewise.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Compute how many users or runs it takes to show a drop.

    A drop of the mean, or a share of users whose lists went bad.

    By Student's t on the mean of the runs against the healthy runs before, exact for normal runs.
    With --users and --runs it gives the chance. With --share the rules in force are looked at, and
    the one that sees it first is named: a percentile or a share below a floor may see a few users
    earlier than the mean does."""
    from monitor.service.analysis import sample_size

    if (drop is None) == (share is None):
        raise typer.BadParameter("give either --drop or --share")
    figures = {"mean": mean, "sd": sd, "wander": wander, "learned": learned}
    given: dict[str, Any] = {name: value for name, value in figures.items() if value is not None}
    what, stored, until = None, [sample_size.PlanInputs()], None
    if comparison is not None:
        what, stored, until = _stored(
            comparison, config, metric, segment, by_rule=share is not None and not given
        )
    plans = []
    for known in (replace(each, **given) for each in stored):
        size = drop if drop is not None else sample_size.drop_of_share(known, share or 0.0, to)
        part = alpha or known.alpha or sample_size.alpha_of_budget(what)
        plans.append(
            sample_size.plan_sample_size(
                known, drop=size, users=users, runs=runs, share=part, power=power
            )
        )
    found = min(plans, key=sample_size.rank_plan)
    if as_json:
        print_json(_plan_dict(found) | {"users_until_certain": until and until[0]})
        return
    _print_plan(found)
    if until is not None:
        asked = f"about {until[0]:,} of {until[1]:,} users ({1 - until[0] / until[1]:.0%} fewer)"
        print_line(
            f"with stop_when: decided a run like the newest would ask {asked} for the same verdicts"
        )


def _stored(
    name: str, config: Config, metric: str | None, segment: str, *, by_rule: bool
) -> tuple[Comparison, list[PlanInputs], tuple[int, int] | None]:
    from monitor.service.analysis.backtest import configured_comparison
    from monitor.service.analysis.sample_size import (
        read_plan_inputs,
        read_rule_inputs,
        users_until_certain,
    )
    from monitor.settings.loader import load_settings
    from monitor.storage import opened_store

    settings = load_settings(config)
    what, _ = configured_comparison(settings, name, None)
    with opened_store(settings.database) as store:
        of_rules = read_rule_inputs(what, store.history, metric, segment) if by_rule else []
        known = of_rules or [read_plan_inputs(what, store.history, metric, segment)]
        return what, known, users_until_certain(what, store.history)


def _plan_dict(found: SampleSizePlan) -> dict[str, object]:
    known, search = found.known, found.search
    return {
        **pick(found, "drop", "users", "runs", "chance"),
        "power": search.power,
        "alpha": search.share,
        "obstacle": found.obstacle,
        "alert": known.rule and known.rule.alert,
        **pick(known, "mean", "sd", "wander", "learned"),
        "usual_users": known.users,
        "least_drop_now": None if known.users is None else search.least_drop(known.users),
    }


def _print_plan(found: SampleSizePlan) -> None:
    search, known = found.search, found.known
    if known.rule is not None:
        scale = " (as angles: arcsin of the root)" if known.rule.is_share else ""
        print_line(
            (
                f"seen first by {known.rule.alert}, {known.rule.statistic} of "
                f"{known.rule.metric}{scale}"
            )
        )
    mean = "" if known.mean is None else f"healthy mean {known.mean:.4g}, "
    spread = f"over users it varies by {search.sd:.3g}, from run to run by {search.wander:.3g}"
    print_line(f"{mean}{spread} ({known.learned:,} healthy runs)")
    aim = (
        f"a drop of {found.drop:.3g} with a chance of {search.power:.0%}, falsely in one look "
        f"of {1 / search.share:,.0f}"
    )
    if found.obstacle is not None:
        print_line(f"{aim}: {found.obstacle}")
    elif found.chance is not None:
        size = f"{found.runs:,} runs of {found.users:,} users"
        print_line(
            f"a drop of {found.drop:.3g} is seen in {size} with a chance of {found.chance:.1%}"
        )
    else:
        print_line(
            (
                f"{aim}: {found.runs:,} run{'' if found.runs == 1 else 's judged together'} of "
                f"{found.users:,} users"
            )
        )
    if known.users is not None:
        print_line(
            (
                f"a usual run of {known.users:,} users shows a drop of "
                f"{search.least_drop(known.users):.3g} with that chance"
            )
        )
