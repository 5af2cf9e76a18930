"""Users or runs that it takes to detect a drop of a given size, from stored runs or from given figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.alerts.rule_evaluation import Figures, segments_of
from monitor.errors import ConfigError
from monitor.metrics import parse
from monitor.model.arrays import Floats
from monitor.model.comparison import Comparison
from monitor.model.memory import PastRun
from monitor.model.rules import (
    MEAN,
    MIN_HEALTHY_RUNS,
    Direction,
    FixedLimit,
    LearnedLimit,
    Learning,
    SimilarityRule,
    is_learned,
)
from monitor.model.runs import Summary
from monitor.pipeline.expectations import share_out
from monitor.pipeline.rule_series import RuleSeries
from monitor.ports import History
from monitor.reference.prediction import WINDOW, refer
from monitor.reference.sampling_error import from_angle, to_angle
from monitor.reference.thresholds import Budget, DropSearch
from monitor.sequential.gate import is_certain, round_ends
from monitor.service.analysis.backtest import newest_runs, pick_healthy


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What is known of the mean of a metric before planning; None where it is not."""

    mean: float | None = None  # of healthy runs
    sd: float | None = None  # over users
    wander: float | None = None  # of the true mean from run to run
    learned: int = WINDOW  # healthy runs that what is normal is learned from
    users: int | None = None  # of a usual run
    worst: float | None = None  # where the lists of a user who is affected end up
    rule: SimilarityRule | None = (
        None  # whose statistic takes the place of the mean, on the scale that it judges
    )
    alpha: float | None = None  # of the rule, a look


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSizePlan:
    """An answer: what is looked for, and the users, runs or chance that were asked for."""

    inputs: PlanInputs
    search: DropSearch
    drop: float
    users: int | None
    runs: int | None
    chance: float | None
    obstacle: str | None = None


def read_plan_inputs(
    comparison: Comparison, history: History, metric: str | None, segment: str
) -> PlanInputs:
    """What the newest healthy runs tell of a metric (default: the first) in a segment.

    ConfigError for none, or too few.
    """
    name = str(parse(metric or comparison.measuring.metrics[0]))
    limit = FixedLimit(direction=Direction.BELOW, value=0.0, resolve_at=0.0)
    rule = SimilarityRule(
        alert="planned", metric=name, limit=limit, segments=(segment,), min_users=2
    )
    found, runs = _read(RuleSeries(rule, segment), newest_runs(comparison, history))
    if found is None:
        msg = (
            f"{runs} healthy runs of {comparison.name} have {name} in {segment}, "
            f"{MIN_HEALTHY_RUNS} are the least: run more, or give --mean, --sd and --wander"
        )
        raise ConfigError(msg)
    return found


def read_rule_inputs(
    comparison: Comparison, history: History, metric: str | None, segment: str
) -> list[PlanInputs]:
    """The same for each rule in force that learns a drop in the segment (of the metric, where one is given)."""
    past = newest_runs(comparison, history)
    figures, wanted = Figures.of(past[-1].summaries), metric and str(parse(metric))
    rules = [rule for rule in comparison.judging.rules if is_learned(rule)]
    series = [
        RuleSeries(rule, name)
        for rule in rules
        for name in segments_of(rule, figures.segments(rule), ())
    ]
    parts = (
        dict(zip((each.key for each in series), share_out(comparison, series), strict=True))
        if series
        else {}
    )
    drops = [
        rule
        for rule in comparison.judging.similarity_rules
        if isinstance(rule.limit, LearnedLimit)
        and rule.limit.learning is Learning.DROP
        and wanted in (None, rule.metric)
    ]
    read = [
        (rule, _read(RuleSeries(rule, segment), past)[0])
        for rule in drops
        if (rule.alert, segment) in parts
    ]
    return [
        replace(each, rule=rule, alpha=float(parts[rule.alert, segment]))
        for rule, each in read
        if each is not None
    ]


def users_until_certain(comparison: Comparison, history: History) -> tuple[int, int] | None:
    """About how many users ``stop_when: decided`` would ask, of how many, by the newest ok run.

    None where it cannot stop.
    """
    rules, size = comparison.judging.similarity_rules, comparison.measuring.sample
    if (
        (size is not None and size.stops_early)
        or not rules
        or not all(rule.thresholds for rule in rules)
    ):
        return None
    found = Figures.of(newest_runs(comparison, history)[-1].summaries)
    series = [
        (rule, (segment, rule.metric))
        for rule in rules
        for segment in segments_of(rule, found.segments(rule), ())
    ]
    shares = [
        _shares_asked(rule, found.summaries[key]) for rule, key in series if key in found.summaries
    ] or [np.ones(1)]
    users = max((each.n for each in found.summaries.values()), default=0)
    return round(float(np.max(shares, axis=0).mean()) * users), users


def _shares_asked(rule: SimilarityRule, summary: Summary) -> Floats:
    bars, random = summary.histogram, np.random.default_rng(0)
    edges = np.linspace(bars.low, bars.high, len(bars.counts) + 1)
    scores = np.repeat((edges[1:] + edges[:-1]) / 2, bars.counts)
    orders = random.permuted(np.tile(scores, (5, 1)), axis=1)
    asked = np.ones(len(orders))
    for end in round_ends(len(scores))[:-1]:
        is_open = asked == 1.0
        asked[is_open] -= is_certain(rule, orders[is_open, :end], len(scores)) * (
            1 - end / len(scores)
        )
    return asked


def _read(
    series: RuleSeries[SimilarityRule], past: Sequence[PastRun]
) -> tuple[PlanInputs | None, int]:
    """What is known of the series, None where healthy runs are too few, and how many these are."""
    healthy, _ = pick_healthy(past, series)
    if len(healthy) < MIN_HEALTHY_RUNS:
        return None, len(healthy)
    values, errors = np.array([series.measure(each) for each in healthy]).T[..., np.newaxis]
    if np.isnan(errors).all():
        return None, 0
    reference = refer(values, errors)
    # The spread over runs holds the error of each run's sample: what is left is the wander of the
    # true mean.
    wander = math.sqrt(max(0.0, float(reference.spread[0] ** 2 - reference.sampling[0])))
    known = PlanInputs(
        mean=float(reference.center[0]),
        sd=float(np.nanmedian(errors[:, 0] * np.sqrt([each.n for each in healthy]))),
        wander=wander,
        learned=int(reference.runs[0]),
        users=int(np.median([each.n for each in healthy])),
        worst=_worst(series.rule.metric, healthy),
    )
    return known, len(healthy)


def _worst(metric: str, healthy: Sequence[Summary]) -> float | None:
    # Lists that have nothing in common, else the usual 5th percentile.
    disjoint = parse(metric).disjoint
    if disjoint is not None and math.isfinite(disjoint):
        return disjoint
    found = [each.statistics["p05"] for each in healthy if "p05" in each.statistics]
    return float(np.median(found)) if found else None


def alpha_of_budget(comparison: Comparison | None) -> float:
    """Chance of a false page in one look, were this the only one that spends the comparison's budget (of 90 runs for None)."""
    runs = 90.0 if comparison is None else max(1.0, comparison.judging.runs_a_false_page)
    return Budget(runs=runs, segments=["all"], looks={"mean": 1.0}).share("all", "mean")


def drop_of_share(known: PlanInputs, share: float, to: float | None) -> float:
    """Change of what is looked at when this share of the users falls to ``to``.

    ConfigError where mean or value are unknown.
    """
    end = known.worst if to is None else to
    if known.mean is None or end is None:
        raise ConfigError(
            "a share of users needs to know from where to where they fall: give --mean and --to"
        )
    statistic = MEAN if known.rule is None else known.rule.statistic
    if statistic.floor is not None:
        n = known.users or 1
        below = float(from_angle(known.mean, n))
        return (
            float(to_angle(below + share * (1 - below), n)[0]) - known.mean
            if end < statistic.floor
            else 0.0
        )
    if statistic.quantile is None:
        return share * abs(known.mean - end)
    # Those who fall are the tail once they are more than it holds.
    return abs(known.mean - end) if share > min(statistic.quantile, 1 - statistic.quantile) else 0.0


def rank_plan(found: SampleSizePlan) -> tuple[object, ...]:
    """The least is the best plan: one that can be, with the higher chance, fewer runs, fewer users."""
    return found.obstacle is not None, -(found.chance or 0.0), found.runs or 0, found.users or 0


def plan_sample_size(
    known: PlanInputs,
    *,
    drop: float,
    users: int | None,
    runs: int | None,
    share: float,
    power: float,
) -> SampleSizePlan:
    """What is missing: the users for these runs, else the runs for these users, else (both given) the chance.

    With neither given: the users for one run. ConfigError when sd or wander are not known, InputError when out of range.
    """
    if known.sd is None or known.wander is None:
        raise ConfigError(
            "give --sd (over users) and --wander (of the mean from run to run), or a comparison "
            "with stored runs"
        )
    search = DropSearch(
        sd=known.sd, wander=known.wander, learned=known.learned, share=share, power=power
    )
    found = SampleSizePlan(
        inputs=known, search=search, drop=drop, users=users, runs=runs, chance=None
    )
    if users is not None and runs is not None:
        return replace(found, chance=search.chance(drop, users, runs))
    if users is not None:
        return _with_runs(found, users)
    return _with_users(found, runs or 1)


def _with_users(found: SampleSizePlan, runs: int) -> SampleSizePlan:
    users = found.search.users_for(found.drop, runs)
    if users is not None:
        return replace(found, users=users, runs=runs)
    more = found.search.runs_for(found.drop, math.inf)
    wander = f"from run to run the mean wanders by {found.search.wander:.3g} whatever their number"
    help_ = (
        f"the {found.search.learned:g} healthy runs are too few for so small a drop"
        if more is None
        else f"{more:,} or more runs judged together can show it"
    )
    least, span = (
        found.search.least_drop(math.inf, runs),
        "one run" if runs == 1 else f"{runs:,} runs",
    )
    obstacle = (
        f"no number of users helps: {wander}, so that {span} can show {least:.3g} at best; {help_}"
    )
    return replace(found, runs=runs, obstacle=obstacle)


def _with_runs(found: SampleSizePlan, users: int) -> SampleSizePlan:
    runs = found.search.runs_for(found.drop, users)
    if runs is not None:
        return replace(found, runs=runs)
    least = found.search.least_drop(users, math.inf)
    obstacle = (
        f"no number of runs helps: after {found.search.learned:g} healthy runs what is normal is "
        f"known well enough to show {least:.3g} at best; more history, or more users a run, can"
    )
    return replace(found, obstacle=obstacle)
