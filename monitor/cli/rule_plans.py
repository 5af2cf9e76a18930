"""Commands that plan rules. `suggest` proposes thresholds, and `plan` computes sample sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.cli.completion import DEFAULT_CONFIG, complete_comparisons, complete_segments
from monitor.cli.output import attributes_of, print_json, print_line, print_objects
from monitor.cli.parameters import (
    AsJson,
    ComparisonArgument,
    Config,
    MetricOption,
    Segments,
    parse_span,
)
from monitor.model.errors import InputError
from monitor.model.immutable import immutable
from monitor.model.instants import format_second
from monitor.texts.planning import (
    write_arm_sizes,
    write_chance,
    write_early_stop,
    write_false_alerts,
    write_least_drop,
    write_needed,
    write_size,
    write_spread,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.model.rules import Comparison
    from monitor.service.analysis.sample_size import EarlyStop, PlanInputs, SampleSizePlan
    from monitor.service.analysis.thresholds import Suggestion


def suggest(  # noqa: PLR0913 - the command's options
    comparison: ComparisonArgument,
    *,
    every: Annotated[
        str | None,
        typer.Option(
            "--false-alarm-every",
            metavar="DURATION",
            help="Accepted time between false alerts, such as 90d. Default: the value of the "
            "comparison.",
        ),
    ] = None,
    statistic: Annotated[
        list[str] | None,
        typer.Option(help="Statistic, such as p95. May be repeated. Default: mean and p05."),
    ] = None,
    segment: Segments = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Print only the rules, as YAML for the configuration.")
    ] = False,
) -> None:
    """Suggest thresholds, learned from healthy runs.

    For each threshold, the command shows when the alert of a rule with this threshold would have
    fired. Taken together, the thresholds should cause at most one false alert in the time that you
    set with --false-alarm-every. Unlike a rule with `learned:`, a fixed threshold does not adapt to
    seasons or to slow changes that you want. The exit code is 2 if nothing can be suggested yet.
    """
    from monitor.service.analysis.thresholds import (
        STATISTICS,
        configured_comparison,
        suggest_thresholds,
    )
    from monitor.settings.loader import load_settings
    from monitor.storage import opened_store
    from monitor.texts.unpaired import write_needs_pairs

    settings = load_settings(config)
    accepted = None if every is None else parse_span(every)
    configured, interval = configured_comparison(settings, comparison, accepted)
    if configured.measuring.unpaired is not None:
        raise InputError(write_needs_pairs(configured.name))
    with opened_store(settings.database) as store:
        suggestions = suggest_thresholds(
            configured,
            store.history,
            statistics=statistic or STATISTICS,
            segments=segment or ("all",),
            interval=interval,
        )
    if as_json:
        print_json(*map(_suggestion_dict, suggestions))
    else:
        if not as_yaml:
            _print_suggestions(suggestions, configured.judging.runs_per_false_alert * interval)
        _print_rules(suggestions)
    if all(suggestion.reason is not None for suggestion in suggestions):
        raise typer.Exit(InputError.exit_code)


def _suggestion_dict(suggestion: Suggestion) -> dict[str, object]:
    """Return the suggestion as JSON. It is also a row of the table."""
    rule = suggestion.rule
    threshold = caught = None
    if suggestion.reason is None:
        threshold = rule.threshold
        caught = [attributes_of(change, "slot", "value") for change in suggestion.caught]
    return {
        **attributes_of(rule, "alert", "metric"),
        "statistic": str(rule.statistic),
        "segment": suggestion.segment,
        "direction": rule.direction,
        "threshold": threshold,
        "min_users": rule.min_users,
        **attributes_of(suggestion, "runs", "expected"),
        "seen_with_50_percent": suggestion.usually,
        "seen_with_95_percent": suggestion.nearly_always,
        "caught": caught,
        **attributes_of(suggestion, "reason", "note"),
    }


def _print_suggestions(suggestions: tuple[Suggestion, ...], every: timedelta) -> None:
    """Print the thresholds, what one run detects, and when the alerts would have fired."""
    columns = (
        "metric statistic segment runs> expected> direction threshold> seen_with_50_percent> "
        "seen_with_95_percent> reason note"
    )
    print_objects(
        map(_suggestion_dict, suggestions), columns, as_json=False, omits_empty_columns=True
    )
    if not any(suggestion.reason is None for suggestion in suggestions):
        print_line()
        return
    print_line(write_false_alerts(every))
    print_line(
        "seen with 50 or 95 percent: one run detects this change with a probability of 50 or 95 %"
    )
    for suggestion in suggestions:
        if suggestion.caught:
            slots = ", ".join(format_second(change.slot) for change in suggestion.caught)
            print_line(f"{suggestion.rule.alert} would have fired at {slots}")
    print_line()


def _print_rules(suggestions: tuple[Suggestion, ...]) -> None:
    """Print the suggested rules as YAML for the configuration."""
    # Write values as JSON, because JSON strings and numbers are also valid YAML.
    rules = [suggestion.rule for suggestion in suggestions if suggestion.reason is None]
    if not rules:
        print_line(
            "rules: []  # nothing can be suggested yet: run more slots, or replay past slots"
        )
        return
    print_line("rules:")
    for rule in rules:
        entries = [f"alert: {rule.alert}", f"metric: {json.dumps(rule.metric)}"]
        statistic = str(rule.statistic)
        if statistic != "mean":
            entries.append(f"statistic: {json.dumps(statistic)}")
        if rule.segments != "all":
            entries.append(f"segments: {json.dumps(rule.segments, ensure_ascii=False)}")
        entries.append(f"{rule.direction}: {rule.threshold:.4f}")
        entries.append(f"min_users: {rule.min_users}")
        print_line(f"  - {{{', '.join(entries)}}}")


_PlannedComparison = Annotated[
    str | None,
    typer.Argument(
        autocompletion=complete_comparisons,
        help="A comparison with stored runs. Without a comparison, give --sd and --wander.",
    ),
]
_Drop = Annotated[float | None, typer.Option(min=1e-9, help="Change of the mean to detect.")]
_BrokenShare = Annotated[
    float | None,
    typer.Option(
        min=1e-9,
        max=1.0,
        help="The share of users with broken lists, such as 0.02. Replaces --drop.",
    ),
]
_BrokenScore = Annotated[
    float | None,
    typer.Option(
        help="With --share: the score of users with broken lists. Default: the score of "
        "disjoint lists."
    ),
]
_PlannedUsers = Annotated[
    int | None,
    typer.Option(
        min=2,
        max=10**9,
        help="Number of users in each run. The command computes the number of runs.",
    ),
]
_PlannedRuns = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10**6,
        help="Number of runs that are judged together. The command computes the number of users.",
    ),
]
_Power = Annotated[float, typer.Option(min=0.01, max=0.999, help="Probability of detection.")]
_PlannedAlpha = Annotated[
    float | None,
    typer.Option(
        min=1e-9,
        max=0.49,
        help="Probability of a false alert that you accept each time a rule judges a run. "
        "Default: from the comparison.",
    ),
]
_PlannedSegment = Annotated[
    str,
    typer.Option("--segment", "-s", autocompletion=complete_segments, help="Segment of users."),
]
# What `plan` reads from stored runs if the option is not given.
_Mean = Annotated[
    float | None, typer.Option(help="Mean of healthy runs. Default: from stored runs.")
]
_Deviation = Annotated[
    float | None,
    typer.Option(
        min=0.0, help="Standard deviation of scores over users. Default: from stored runs."
    ),
]
_Wander = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="How much the true mean varies from run to run (standard deviation). Default: from "
        "stored runs.",
    ),
]
_Learned = Annotated[
    int | None,
    typer.Option(
        min=2,
        max=10**6,
        help="Number of earlier healthy runs. Default: the number of stored healthy runs.",
    ),
]


def plan(  # noqa: PLR0913 - the command's options
    comparison: _PlannedComparison = None,
    *,
    drop: _Drop = None,
    share: _BrokenShare = None,
    score: _BrokenScore = None,
    users: _PlannedUsers = None,
    runs: _PlannedRuns = None,
    power: _Power = 0.9,
    alpha: _PlannedAlpha = None,
    metric: MetricOption = None,
    segment: _PlannedSegment = "all",
    mean: _Mean = None,
    sd: _Deviation = None,
    wander: _Wander = None,
    learned: _Learned = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Compute how many users or runs are needed to detect a drop.

    The drop is either a lower mean (--drop) or a share of users with broken lists (--share). In an
    unpaired comparison, --drop is a rise of the self gap, and --share is a share of the candidate's
    users. Every number of users includes the users of both arms.

    The command assumes that the mean of new runs is compared with earlier healthy runs by Student's
    t-test. The result is exact if the means of healthy runs have a normal distribution. With both
    --users and --runs, the command computes the probability of detection. With --share, the command
    uses the configured rules, and names the rule that would detect the change first. If only a few
    users are affected, a rule on a percentile or on share_below(x) can detect the change earlier
    than a rule on the mean.
    """
    from monitor.service.analysis import sample_size

    if (drop is None) == (share is None):
        raise typer.BadParameter("the change to detect is unclear: give either --drop or --share")
    figures = {"mean": mean, "sd": sd, "wander": wander, "learned": learned}
    overrides: dict[str, Any] = {
        name: value for name, value in figures.items() if value is not None
    }
    stored = _Stored(inputs=[sample_size.PlanInputs()])
    if comparison is not None:
        by_rule = share is not None and not overrides
        stored = _read_stored(comparison, config, metric, segment, by_rule=by_rule)
    plans = []
    for stored_inputs in stored.inputs:
        inputs = replace(stored_inputs, **overrides)
        drop_to_detect = drop
        if drop_to_detect is None:
            drop_to_detect = sample_size.drop_of_share(inputs, share or 0.0, score)
        size_plan = sample_size.plan_sample_size(
            inputs,
            drop=drop_to_detect,
            users=users,
            runs=runs,
            alpha=alpha or inputs.alpha or sample_size.alpha_of_budget(stored.comparison),
            power=power,
        )
        plans.append(size_plan)
    best = min(plans, key=sample_size.rank_plan)
    if as_json:
        needed = None if stored.early_stop is None else stored.early_stop.needed
        print_json(_plan_dict(best) | {"users_until_decided": needed})
        return
    _print_plan(best, assumes_runs=comparison is None and learned is None)
    unpaired = None if stored.comparison is None else stored.comparison.measuring.unpaired
    if unpaired is not None and best.users is not None and best.runs is not None:
        share_of_baseline = unpaired.baseline_share
        print_line(write_arm_sizes(best.users, best.runs, share_of_baseline, stored.interval))
    if stored.early_stop is not None:
        print_line(write_early_stop(stored.early_stop.needed, stored.early_stop.users))


@immutable
class _Stored:
    """The comparison to plan for, and what its stored runs say."""

    inputs: Sequence[PlanInputs]  # of each possible plan
    comparison: Comparison | None = None
    interval: timedelta = timedelta()
    early_stop: EarlyStop | None = None


def _read_stored(
    name: str,
    config: Config,
    metric: str | None,
    segment: str,
    *,
    by_rule: bool,
) -> _Stored:
    """Read the comparison and its stored runs.

    With ``by_rule`` there is a plan for each rule, and otherwise one plan.
    """
    from monitor.service.analysis.sample_size import (
        estimate_early_stop,
        read_plan_inputs,
        read_rule_inputs,
    )
    from monitor.service.analysis.thresholds import configured_comparison
    from monitor.settings.loader import load_settings
    from monitor.storage import opened_store

    settings = load_settings(config)
    comparison, interval = configured_comparison(settings, name, None)
    with opened_store(settings.database) as store:
        inputs = []
        if by_rule:
            inputs = read_rule_inputs(comparison, store.history, metric, segment)
        if not inputs:
            inputs = [read_plan_inputs(comparison, store.history, metric, segment)]
        early_stop = estimate_early_stop(comparison, store.history)
    return _Stored(inputs=inputs, comparison=comparison, interval=interval, early_stop=early_stop)


def _plan_dict(plan: SampleSizePlan) -> dict[str, object]:
    """Return the plan as JSON."""
    inputs = plan.inputs
    search = plan.search
    return {
        **attributes_of(plan, "drop", "users", "runs", "chance"),
        "power": search.power,
        "alpha": search.alpha,
        "reason": plan.reason,
        "alert": None if inputs.rule is None else inputs.rule.alert,
        **attributes_of(inputs, "mean", "sd", "wander", "learned"),
        "usual_users": inputs.users,
        "least_drop_now": None if inputs.users is None else search.least_drop(inputs.users),
    }


def _print_plan(plan: SampleSizePlan, *, assumes_runs: bool) -> None:
    """Print the answer, and the figures on which it is based.

    ``assumes_runs`` says whether the number of healthy runs is an assumption.
    """
    from monitor.model.statistics import DerivedMetric, parse_derived

    search = plan.search
    inputs = plan.inputs
    rule = inputs.rule
    if rule is not None:
        is_angle = rule.is_share or parse_derived(rule.metric).derived is DerivedMetric.FAR_GAP
        scale = " (as angles: arcsin of the root)" if is_angle else ""
        print_line(f"seen first by {rule.alert}, {rule.statistic} of {rule.metric}{scale}")
    print_line(
        write_spread(
            inputs.mean, search.sd, search.wander, inputs.learned, assumes_runs=assumes_runs
        )
    )
    if plan.chance is not None and plan.users is not None and plan.runs is not None:
        print_line(write_chance(plan.drop, plan.users, plan.runs, plan.chance))
    else:
        answer = plan.reason or write_size(plan.users or 0, plan.runs or 0)
        print_line(write_needed(plan.drop, search.power, search.alpha, answer))
    if inputs.users is not None:
        print_line(write_least_drop(inputs.users, search.least_drop(inputs.users)))
