"""Scores paired lists by the metrics of a comparison."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from monitor.measures.metrics import Metric, Need, can_score, drift_direction, parse, score_all
from monitor.measures.pairing.pairs import pair_kept, pair_users
from monitor.measures.summaries import Bounds, SummaryAccumulator, worst_rows
from monitor.model.arrays import Floats, Rows
from monitor.model.immutable import immutable
from monitor.model.rankings import Pairing, RelevanceTable, UserBatch
from monitor.model.rules import Comparison, Direction, MeasuringPlan, SimilarityRule
from monitor.model.runs import KeptLists, Scores, Summary
from monitor.model.statistics import OUTCOME_SERIES, DerivedMetric, Statistic, parse_derived
from monitor.statistics.unpaired.far_lists import find_far_statistic

_MISSING_INPUTS = {
    Need.SCORES: "neither arm gives scores",
    Need.ITEM_WEIGHTS: "the weights of items are not known",
}


@immutable
class ScoredPairs:
    """The scores of paired users.

    - ``by_metric`` has the scores, float64 (users,), of each metric and each series of the noise
      floor. A score is NaN if it is undefined.
    - ``bounds`` are the lowest and the highest possible scores.
    - ``left_out`` are sentences about metrics that cannot score these users.
    """

    metrics: tuple[Metric, ...]
    by_metric: Mapping[str, Floats]
    bounds: Mapping[str, Bounds]
    left_out: tuple[str, ...]


def score_pairs(
    measuring: MeasuringPlan, users: UserBatch, pairing: Pairing, failed: dict[str, str]
) -> ScoredPairs:
    """Score paired users by all metrics that can score them, and score the noise floor.

    If a metric fails, its error is added to ``failed`` under the metric's name.
    """
    k = measuring.k
    metrics = []
    unscored: dict[Need, list[str]] = {}
    for metric in map(parse, measuring.metrics):
        if can_score(metric, pairing.batch):
            metrics.append(metric)
        elif metric.need in _MISSING_INPUTS:
            # Missing relevance is not reported, because it may arrive later.
            unscored.setdefault(metric.need, []).append(str(metric))
    left_out = []
    for need, names in unscored.items():
        left_out.append(f"{', '.join(names)} not measured, because {_MISSING_INPUTS[need]}")
    floor = _score_floor(users, pairing, k, metrics, failed)
    by_metric = score_all(pairing.batch, metrics, failed=failed)
    bounds = score_ranges(metrics, k)
    _add_floor(by_metric, bounds, floor, metrics)
    return ScoredPairs(
        metrics=tuple(metrics), by_metric=by_metric, bounds=bounds, left_out=tuple(left_out)
    )


def relevance_metrics(measuring: MeasuringPlan) -> tuple[Metric, ...]:
    """Return the metrics of the plan that need relevance."""
    return tuple(
        metric for metric in map(parse, measuring.metrics) if metric.need is Need.RELEVANCE
    )


def summarize_scores(
    rules: Iterable[SimilarityRule],
    k: int,
    segments: Mapping[str, Rows],
    scores: Scores,
    metrics: Sequence[Metric],
) -> tuple[Summary, ...]:
    """Return summaries with the statistics that rules need. ``segments`` are rows of ``scores``."""
    accumulator = SummaryAccumulator(tuple(segments), wanted_statistics(rules))
    accumulator.add(segments, scores.by_metric, score_ranges(metrics, k))
    return accumulator.summaries()


def wanted_statistics(rules: Iterable[SimilarityRule]) -> dict[str, list[Statistic]]:
    """Return the statistics that the rules need, by metric or derived series."""
    statistics_by_series: dict[str, list[Statistic]] = {}
    for rule in rules:
        statistics_by_series.setdefault(rule.metric, []).append(rule.statistic)
    return statistics_by_series


def run_statistics(comparison: Comparison) -> dict[str, list[Statistic]]:
    """Return the statistics that a run of the comparison needs, by the series that it scores.

    An unpaired run does not score self gaps and far gaps. It computes them later from the summaries
    of the metric. So if a rule needs a statistic of a gap, the run computes this statistic of the
    metric. For far gaps, it also computes the share of users with far lists.
    """
    statistics_by_series = wanted_statistics(comparison.judging.similarity_rules)
    if comparison.measuring.unpaired is None:
        return statistics_by_series
    statistics_by_metric: dict[str, list[Statistic]] = {}
    for name, statistics in statistics_by_series.items():
        statistics_by_metric.setdefault(parse_derived(name).metric, []).extend(statistics)
    for metric in map(parse, comparison.measuring.metrics):
        far_statistic = find_far_statistic(metric)
        if far_statistic is not None:
            statistics_by_metric.setdefault(str(metric), []).append(far_statistic)
    return statistics_by_metric


def score_ranges(metrics: Iterable[Metric], k: int) -> dict[str, Bounds]:
    """Return the bounds of each metric's scores on lists of at most k items."""
    return {str(metric): metric.bounds(k) for metric in metrics}


def score_kept_lists(
    lists: KeptLists,
    k: int,
    metrics: Sequence[Metric],
    relevance: RelevanceTable | None = None,
) -> Scores:
    """Score the users whose lists were stored. The lists are cut to k."""
    pairing = pair_kept(lists, k, relevance=relevance)
    return Scores(
        users=lists.baseline.users, by_metric=score_all(pairing.batch, metrics, failed={})
    )


def leading_metric(comparison: Comparison, metrics: Sequence[Metric]) -> Metric | None:
    """Return the metric that selects examples and explains runs.

    This is the metric of the first rule whose metric is one of ``metrics``. If there is no such
    rule, it is the first metric. None if there are no metrics.
    """
    by_name = {str(metric): metric for metric in metrics}
    for rule in comparison.judging.similarity_rules:
        # A rule on a derived series needs the metric from which the series is derived.
        name = parse_derived(rule.metric).metric
        if name in by_name:
            return by_name[name]
    return metrics[0] if metrics else None


def find_worst_similarity(
    comparison: Comparison,
    scores: Scores,
    metrics: Iterable[Metric],
    failed: Collection[str],
) -> Floats:
    """Return the similarity of the users with the least similar lists, and NaN for other users.

    The similarity is the score by the `leading_metric` that did not fail. The score is negated if
    higher scores mean less similar lists.
    """
    worst_similarity = np.full(len(scores.users), np.nan)
    measured = [metric for metric in metrics if str(metric) not in failed]
    metric = leading_metric(comparison, measured)
    if metric is not None:
        values = scores.by_metric[str(metric)]
        if not metric.higher_is_more_alike:
            values = -values
        worst = worst_rows(values, scores.users, comparison.measuring.evidence_users)
        worst_similarity[worst] = values[worst]
    return worst_similarity


def means_too_similar(metric: str, statistic: str, direction: Direction) -> bool:
    """Return whether values on this side of a limit mean that lists are too similar.

    The rule judges this ``statistic`` of the ``metric``, which may be a derived series.
    """
    derived, _ = parse_derived(metric)
    if derived in OUTCOME_SERIES:
        return False
    return direction is not drift_direction(metric, Statistic.parse(statistic))


def _score_floor(
    users: UserBatch,
    pairing: Pairing,
    k: int,
    metrics: Sequence[Metric],
    failed: dict[str, str],
) -> dict[str, Floats]:
    """Compare the baseline's first and second lists. Returns scores by metric.

    Each row of ``pairing`` has one score, which is NaN for a user without a second list. Metrics
    are left out if they need relevance, or if they need scores or weights that a list lacks. The
    result is empty if there are no second lists.
    """
    if users.second_baseline is None:
        return {}
    floor_pairing = pair_users(
        users.panel, users.baseline, users.second_baseline, k, item_weights=users.weights
    )
    usable = [metric for metric in metrics if can_score(metric, floor_pairing.batch)]
    if not usable:
        return {}
    scores = score_all(floor_pairing.batch, usable, failed=failed)
    floor = {}
    for name, values in scores.items():
        # The rows of both pairings differ, because each leaves out other users. Both refer to the
        # rows of the panel.
        by_panel_row = np.full(len(users.panel), np.nan)
        by_panel_row[floor_pairing.panel_rows] = values
        floor[name] = by_panel_row[pairing.panel_rows]
    return floor


def _add_floor(
    scores: dict[str, Floats],
    bounds: dict[str, Bounds],
    floor: Mapping[str, Floats],
    metrics: Iterable[Metric],
) -> None:
    """Add the series of the noise floor to the scores, (n,) each, and to their bounds.

    There are two series for each metric: the score in ``floor``, and the excess over it. The excess
    says how much farther the candidate's list is than the baseline's own second list.
    """
    for metric in metrics:
        name = str(metric)
        if name not in floor:
            continue
        low, high = bounds[name]
        # If the excess is above 0, the baseline is farther from the candidate than from its own
        # second list.
        if metric.higher_is_more_alike:
            excess = floor[name] - scores[name]
        else:
            excess = scores[name] - floor[name]
        scores[DerivedMetric.FLOOR.of(name)] = floor[name]
        bounds[DerivedMetric.FLOOR.of(name)] = low, high
        # The excess is the difference of two scores.
        scores[DerivedMetric.OVER_FLOOR.of(name)] = excess
        bounds[DerivedMetric.OVER_FLOOR.of(name)] = low - high, high - low
