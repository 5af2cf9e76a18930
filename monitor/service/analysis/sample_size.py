"""Computes how many users or runs are needed to detect a drop.

The figures come from stored runs or from options.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from monitor.alerts.rule_evaluation import Figures, segments_of
from monitor.measures.metrics import parse
from monitor.model.arrays import Floats
from monitor.model.errors import ConfigError
from monitor.model.immutable import immutable
from monitor.model.memory import PastRun
from monitor.model.rules import (
    MEAN,
    MIN_HEALTHY_RUNS,
    Comparison,
    Direction,
    FixedLimit,
    LearnedLimit,
    Learning,
    SeriesRule,
    SimilarityRule,
    is_learned,
)
from monitor.model.runs import Summary
from monitor.model.statistics import GAPS, DerivedMetric, parse_derived
from monitor.pipeline.expectations import share_alert_budget
from monitor.pipeline.rule_series import RuleSeries
from monitor.pipeline.score import means_too_similar
from monitor.service.analysis.thresholds import newest_runs, pick_healthy
from monitor.statistics.reference.history import WINDOW
from monitor.statistics.reference.prediction import compute_reference
from monitor.statistics.reference.sampling_error import from_angle, to_angle
from monitor.statistics.reference.thresholds import Budget, DropSearch
from monitor.statistics.sequential.gate import is_certain, round_ends
from monitor.statistics.unpaired.far_lists import find_far_statistic
from monitor.storage.run_history import SqlHistory
from monitor.texts.planning import write_no_runs_suffice, write_no_users_suffice

SeriesRuleT = TypeVar("SeriesRuleT", bound=SeriesRule)


@immutable
class PlanInputs:
    """The figures that planning needs about a metric. An unknown figure is None."""

    mean: float | None = None  # the mean of healthy runs
    sd: float | None = None  # standard deviation of the scores over users
    # how much the true mean varies from run to run (standard deviation)
    wander: float | None = None
    learned: int = WINDOW  # the number of healthy runs to learn from
    users: int | None = None  # the number of users of a usual run
    worst: float | None = None  # the score of a user whose lists are broken
    # In an unpaired comparison ``mean`` is a gap. This is the candidate's mean score, or its share
    # of users with far lists.
    of_candidate: float | None = None
    # If a rule is given, all figures are about the rule's statistic instead of the mean.
    rule: SimilarityRule | None = None
    alpha: float | None = None  # the rule's probability of a false alert at each look


@immutable
class SampleSizePlan:
    """The plan: the drop to detect, and the number of users and of runs that detect it."""

    inputs: PlanInputs
    search: DropSearch
    drop: float
    users: int | None
    runs: int | None
    chance: float | None
    reason: str | None = None


def read_plan_inputs(
    comparison: Comparison,
    history: SqlHistory,
    metric: str | None,
    segment: str,
) -> PlanInputs:
    """Read the figures of a metric in one segment from the newest healthy runs.

    The default is the first metric. Raises ConfigError if there are too few runs.
    """
    name = str(parse(metric or comparison.measuring.metrics[0]))
    if comparison.measuring.unpaired is not None:
        name = DerivedMetric.SELF_GAP.of(name)
    limit = FixedLimit(direction=Direction.BELOW, value=0.0, resolve_at=0.0)
    rule = SimilarityRule(
        alert="planned",
        metric=name,
        limit=limit,
        segments=(segment,),
        min_users=2,
    )
    inputs, runs = _read_figures(RuleSeries(rule, segment), newest_runs(comparison, history))
    if inputs is None:
        raise ConfigError(
            f"{runs} healthy runs of {comparison.name} have {name} in {segment}, but "
            f"{MIN_HEALTHY_RUNS} are needed: run more slots, or give --mean, --sd and --wander"
        )
    return inputs


def read_rule_inputs(
    comparison: Comparison,
    history: SqlHistory,
    metric: str | None,
    segment: str,
) -> list[PlanInputs]:
    """Return the figures for each rule that detects a learned drop of the metric in the segment."""
    past = newest_runs(comparison, history)
    rules = [rule for rule in comparison.judging.rules if is_learned(rule)]
    series = _series_of(rules, Figures.of(past[-1].summaries))
    if not series:
        return []
    # Each series may use a share of the accepted probability of a false alert.
    shares = share_alert_budget(comparison, series)
    alphas = dict(zip((one_series.key for one_series in series), shares, strict=True))
    name = None if metric is None else str(parse(metric))
    all_inputs = []
    for rule in comparison.judging.similarity_rules:
        alpha = alphas.get((rule.alert, segment))
        if alpha is None or not _detects_drop(rule):
            continue
        derived, metric_of_gap = parse_derived(rule.metric)
        judged = metric_of_gap if derived in GAPS else rule.metric
        if name is None or name == judged:
            inputs, _ = _read_figures(RuleSeries(rule, segment), past)
            if inputs is not None:
                all_inputs.append(replace(inputs, rule=rule, alpha=float(alpha)))
    return all_inputs


def _detects_drop(rule: SimilarityRule) -> bool:
    """Return whether the rule learns its limit, and alerts if one run is less similar."""
    if not isinstance(rule.limit, LearnedLimit) or rule.limit.learning is not Learning.DROP:
        return False
    return not means_too_similar(rule.metric, str(rule.statistic), rule.direction)


def _series_of(rules: Iterable[SeriesRuleT], figures: Figures) -> list[RuleSeries[SeriesRuleT]]:
    """Return a series for each rule and each segment that it judges in a run with these figures."""
    series = []
    for rule in rules:
        for segment in segments_of(rule, figures.segments(rule), ()):
            series.append(RuleSeries(rule, segment))
    return series


@immutable
class EarlyStop:
    """How many users ``stop_when: decided`` would have asked in the newest ok run."""

    needed: int
    users: int  # the number of users of the run


def estimate_early_stop(comparison: Comparison, history: SqlHistory) -> EarlyStop | None:
    """Estimate how many users ``stop_when: decided`` would have asked in the newest ok run.

    Returns None if the comparison cannot stop early, or if it stops early already.
    """
    rules = comparison.judging.similarity_rules
    size = comparison.measuring.sample
    if comparison.measuring.unpaired is not None or (size is not None and size.stops_early):
        return None
    if not rules or not all(rule.thresholds for rule in rules):
        return None
    figures = Figures.of(newest_runs(comparison, history)[-1].summaries)
    shares = []
    for series in _series_of(rules, figures):
        summary = figures.summaries.get((series.segment, series.rule.metric))
        if summary is not None:
            shares.append(_shares_asked(series.rule, summary))
    # A run ends when its last rule is certain. This is the mean over the random orders.
    share = float(np.max(shares, axis=0).mean()) if shares else 1.0
    users = max((summary.n for summary in figures.summaries.values()), default=0)
    return EarlyStop(needed=round(share * users), users=users)


def _shares_asked(rule: SimilarityRule, summary: Summary) -> Floats:
    """Return the share of users after which the rule is certain, for five random orders.

    The scores are not stored with the run, so they are taken from the histogram.
    """
    histogram = summary.histogram
    edges = np.linspace(histogram.low, histogram.high, len(histogram.counts) + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    scores = np.repeat(middles, histogram.counts)
    orders = np.random.default_rng(0).permuted(np.tile(scores, (5, 1)), axis=1)
    shares = np.ones(len(orders))
    # A run asks for users in rounds, and the rule is checked after each round.
    for end in round_ends(len(scores))[:-1]:
        is_uncertain = shares == 1.0
        is_now_certain = is_certain(rule, orders[is_uncertain, :end], len(scores))
        shares[is_uncertain] = np.where(is_now_certain, end / len(scores), 1.0)
    return shares


def _read_figures(
    series: RuleSeries[SimilarityRule], past: Sequence[PastRun]
) -> tuple[PlanInputs | None, int]:
    """Return the figures of the series, and the number of healthy runs. The figures may be None."""
    healthy, _ = pick_healthy(past, series)
    if len(healthy) < MIN_HEALTHY_RUNS:
        return None, len(healthy)
    key = (series.segment, series.rule.metric)
    all_figures = [Figures.of(run.summaries) for run in past]
    healthy_figures = [figures for figures in all_figures if figures.summaries.get(key) in healthy]
    # `read` returns a run's value and its sampling error. `compute_reference` takes a column of each
    # for every series. Here there is one series.
    measures = np.array([series.read(figures) for figures in healthy_figures])
    values = measures[:, :1]
    errors = measures[:, 1:]
    if np.isnan(errors).all():
        return None, 0
    reference = compute_reference(values, errors)
    # The variance over runs includes the sampling error. Without this error it is the variance of
    # the true mean.
    wander = math.sqrt(max(0.0, float(reference.spread[0] ** 2 - reference.sampling[0])))
    users = [figures.summaries[key].n for figures in healthy_figures]
    inputs = PlanInputs(
        mean=float(reference.center[0]),
        sd=float(np.nanmedian(errors[:, 0] * np.sqrt(users))),
        wander=wander,
        learned=int(reference.runs[0]),
        users=int(np.median(users)),
        worst=_worst_score(series.rule.metric, healthy),
        of_candidate=_read_candidate(series, healthy_figures),
    )
    return inputs, len(healthy)


def _read_candidate(series: RuleSeries[SimilarityRule], figures: Iterable[Figures]) -> float | None:
    """Return the candidate's usual value of which the series is the gap. None for other series."""
    derived, name = parse_derived(series.rule.metric)
    if derived not in GAPS:
        return None
    statistic = (
        "mean" if derived is DerivedMetric.SELF_GAP else str(find_far_statistic(parse(name)))
    )
    of_candidate = DerivedMetric.CANDIDATE_SELF.of(name)
    values = []
    for of_run in figures:
        value = of_run.summaries[series.segment, of_candidate].value(statistic)
        if value is not None:
            values.append(value)
    return float(np.median(values)) if values else None


def _worst_score(metric: str, healthy: Sequence[Summary]) -> float | None:
    """Return the score of disjoint lists, or the usual 5th percentile if that score is unknown."""
    disjoint = parse(parse_derived(metric).metric).disjoint
    if disjoint is not None and math.isfinite(disjoint):
        return disjoint
    percentiles = [summary.statistics["p05"] for summary in healthy if "p05" in summary.statistics]
    if not percentiles:
        return None
    return float(np.median(percentiles))


def alpha_of_budget(comparison: Comparison | None) -> float:
    """Return the accepted probability of a false alert in one run.

    This assumes that only one rule is judged, in one segment. Without a comparison, one false alert
    in 90 runs is accepted.
    """
    runs = 90.0 if comparison is None else max(1.0, comparison.judging.runs_per_false_alert)
    return Budget(runs=runs, segments=["all"], looks={"mean": 1.0}).alpha("all", "mean")


def drop_of_share(inputs: PlanInputs, share: float, to: float | None) -> float:
    """Return how far the statistic changes if this share of the users falls to the score ``to``.

    Raises ConfigError if the mean or the score is unknown.
    """
    end = inputs.worst if to is None else to
    if inputs.mean is None or end is None:
        raise ConfigError(
            "--share needs the scores before and after the fall: give --mean and --score"
        )
    statistic = MEAN if inputs.rule is None else inputs.rule.statistic
    if inputs.of_candidate is not None:
        return _gap_of_share(inputs, inputs.of_candidate, end, share)
    if statistic.below is not None:
        if end >= statistic.below:
            return 0.0
        # The figures of a share are angles, see `to_angle`.
        users = inputs.users or 1
        below = float(from_angle(inputs.mean, users))
        return float(to_angle(below + share * (1 - below), users)[0]) - inputs.mean
    drop = abs(inputs.mean - end)
    if statistic.quantile is None:
        return share * drop
    # A 5th percentile changes only if more than 5 % of the users are affected.
    if share > min(statistic.quantile, 1 - statistic.quantile):
        return drop
    return 0.0


def _gap_of_share(inputs: PlanInputs, usual: float, end: float, share: float) -> float:
    """Return the gap if this share of the candidate's users falls to the score ``end``.

    ``usual`` is the candidate's usual value.
    """
    floor = None
    if inputs.rule is not None:
        derived, name = parse_derived(inputs.rule.metric)
        far = find_far_statistic(parse(name))
        if derived is DerivedMetric.FAR_GAP and far is not None:
            floor = far.below
    if floor is None:
        return share * abs(usual - end)
    if end >= floor:
        return 0.0
    users = inputs.users or 1
    before, after = to_angle(np.array([usual, usual + share * (1 - usual)]), users)[0]
    return float(after - before)


def rank_plan(plan: SampleSizePlan) -> tuple[object, ...]:
    """Return the sort key of a plan.

    Plans that are possible come first. They are sorted by probability (high first), then by runs
    and users (few first).
    """
    return plan.reason is not None, -(plan.chance or 0.0), plan.runs or 0, plan.users or 0


def plan_sample_size(
    inputs: PlanInputs,
    *,
    drop: float,
    users: int | None,
    runs: int | None,
    alpha: float,
    power: float,
) -> SampleSizePlan:
    """Compute the missing number: of users for these runs, or of runs for these users.

    If both numbers are given, the function computes the probability of detection. If both are None,
    it computes the users that one run needs.

    Raises ConfigError if sd or wander is unknown, and InputError if a number is out of range.
    """
    if inputs.sd is None or inputs.wander is None:
        raise ConfigError(
            "the spread is unknown: give --sd (over users) and --wander (over runs), or name a "
            "comparison with stored runs"
        )
    search = DropSearch(
        sd=inputs.sd,
        wander=inputs.wander,
        learned=inputs.learned,
        alpha=alpha,
        power=power,
    )
    plan = SampleSizePlan(
        inputs=inputs,
        search=search,
        drop=drop,
        users=users,
        runs=runs,
        chance=None,
    )
    if users is not None and runs is not None:
        return replace(plan, chance=search.chance(drop, users, runs))
    if users is not None:
        return _with_runs(plan, users)
    return _with_users(plan, runs or 1)


def _with_users(plan: SampleSizePlan, runs: int) -> SampleSizePlan:
    """Add the number of users, or the reason why no number is enough in so many runs."""
    search = plan.search
    users = search.users_for(plan.drop, runs)
    if users is not None:
        return replace(plan, users=users, runs=runs)
    obstacle = write_no_users_suffice(
        wander=search.wander,
        runs=runs,
        least_drop=search.least_drop(math.inf, runs),
        learned=search.learned,
        more_runs=search.runs_for(plan.drop, math.inf),
    )
    return replace(plan, runs=runs, reason=obstacle)


def _with_runs(plan: SampleSizePlan, users: int) -> SampleSizePlan:
    """Add the number of runs, or the reason why no number is enough with so many users."""
    search = plan.search
    runs = search.runs_for(plan.drop, users)
    if runs is not None:
        return replace(plan, runs=runs)
    obstacle = write_no_runs_suffice(search.learned, search.least_drop(users, math.inf))
    return replace(plan, reason=obstacle)
