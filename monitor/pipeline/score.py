"""From paired lists to scores, summaries and evidence, and the scores of the noise floor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from monitor.metrics import Metric, Need, parse, score_all
from monitor.model import (
    Comparison,
    DerivedMetric,
    Evidence,
    EvidenceKind,
    KeptLists,
    MeasuringPlan,
    PairBatch,
    Pairing,
    Pull,
    RelevanceTable,
    Scores,
    SimilarityRule,
    Statistic,
    Summary,
    UserBatch,
    parse_derived,
)
from monitor.model.arrays import Floats
from monitor.pairing import pair
from monitor.pairing.ids import decode
from monitor.summaries import Bounds, SummaryAccumulator

_NOT_KNOWN = {
    Need.SCORES: "neither arm gives scores",
    Need.ITEM_WEIGHTS: "the weights of items are not known",
}


def scorable_metrics(measuring: MeasuringPlan, batch: PairBatch) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """The wanted metrics that this batch can be scored by, and sentences about the others."""
    metrics = tuple(parse(name) for name in measuring.metrics)
    lacking: dict[Need, list[str]] = {}
    for metric in metrics:
        if metric.need is not None and not _is_known(metric.need, batch):
            lacking.setdefault(metric.need, []).append(str(metric))
    # No sentence about relevance that is not known: it may arrive later.
    left_out = tuple(
        f"{', '.join(names)} not measured: {_NOT_KNOWN[need]}" for need, names in lacking.items() if need in _NOT_KNOWN
    )
    return tuple(metric for metric in metrics if metric.need is None or metric.need not in lacking), left_out


def _is_known(need: Need, batch: PairBatch) -> bool:
    return {Need.SCORES: batch.scores, Need.ITEM_WEIGHTS: batch.weights, Need.RELEVANCE: batch.labels}[need] is not None


def relevance_metrics(measuring: MeasuringPlan) -> tuple[Metric, ...]:
    """The wanted metrics that need relevance."""
    return tuple(metric for metric in map(parse, measuring.metrics) if metric.need is Need.RELEVANCE)


def watched_metrics(rules: Iterable[SimilarityRule]) -> Iterator[str]:
    """Names of the metrics that the rules watch, themselves or by a series derived from them, in their order."""
    return (parse_derived(rule.metric)[1] for rule in rules)


def summarize_scores(
    rules: Iterable[SimilarityRule],
    k: int,
    segments: Mapping[str, npt.NDArray[np.intp]],
    scores: Scores,
    metrics: Sequence[Metric],
) -> tuple[Summary, ...]:
    """Summaries with the statistics that the rules ask for; ``segments`` are rows of the scores."""
    found = SummaryAccumulator(segments, wanted_statistics(rules))
    found.add(segments, scores.by_metric, score_ranges(metrics, k))
    return found.summaries()


def wanted_statistics(rules: Iterable[SimilarityRule]) -> dict[str, list[Statistic]]:
    """The statistics that the rules ask of each metric or series."""
    wanted: dict[str, list[Statistic]] = {}
    for rule in rules:
        wanted.setdefault(rule.metric, []).append(rule.statistic)
    return wanted


def score_ranges(metrics: Iterable[Metric], k: int) -> dict[str, Bounds]:
    """The bounds of each metric's scores on lists of at most k items."""
    return {str(metric): metric.bounds(k) for metric in metrics}


def score_kept_lists(lists: KeptLists, k: int, metrics: Sequence[Metric], relevance: RelevanceTable | None = None) -> Scores:
    """Scores of the users of kept lists, cut to k."""
    baseline, candidate = (Pull(rankings=rankings, failures={}) for rankings in (lists.baseline, lists.candidate))
    # All of them had been compared, so rows and segments stay as they were.
    pairing = pair(lists.panel, baseline, candidate, k, relevance=relevance)
    return Scores(users=lists.baseline.users, by_metric=score_all(pairing.batch, metrics))


def example_metric(comparison: Comparison, metrics: Sequence[Metric]) -> Metric | None:
    """The metric by which examples are chosen: that of the first rule, or the first that was measured."""
    # By one metric, or each would show other users.
    by_name = {str(metric): metric for metric in metrics}
    watched = (name for name in watched_metrics(comparison.judging.similarity_rules) if name in by_name)
    return by_name.get(next(watched, next(iter(by_name), "")))


def show_user(pairing: Pairing, scores: Scores, row: int, kind: EvidenceKind, position: int) -> Evidence:
    """Both lists of the user in this row of the pairing and of the scores, with ids in place of codes."""
    return Evidence(
        kind=kind,
        position=position,
        user=scores.users[row],
        baseline=decode(pairing.batch.baseline[row], pairing.vocabulary),
        candidate=decode(pairing.batch.candidate[row], pairing.vocabulary),
        scores={name: None if np.isnan(values[row]) else float(values[row]) for name, values in scores.by_metric.items()},
    )


def measure_floor(users: UserBatch, pairing: Pairing, k: int, metrics: Sequence[Metric]) -> dict[str, Floats]:
    """Scores of the baseline and itself by metric, one a row of ``pairing``; NaN for a user without a second list.

    Left out are metrics that need relevance, those that need scores or weights which are not known of both, and all of them
    where there are no second lists.
    """
    if users.again is None:
        return {}
    # Users without a second list keep a row, so that both series stay aligned.
    again = pair(users.panel, users.baseline, users.again, k, item_weights=users.weights)
    rows = np.full(len(users.panel), -1, dtype=np.intp)
    rows[again.panel_rows] = np.arange(len(again.panel_rows))
    rows = rows[pairing.panel_rows]
    wanted = [metric for metric in metrics if metric.need is None or _is_known(metric.need, again.batch)]
    found = score_all(again.batch, wanted) if wanted else {}
    return {name: np.append(values, np.nan)[rows] for name, values in found.items()}  # row -1 is the NaN


def add_floor(
    scores: Mapping[str, Floats], floor: Mapping[str, Floats], metrics: Sequence[Metric], k: int
) -> tuple[dict[str, Floats], dict[str, Bounds]]:
    """The scores with the series of the floor behind them, and the bounds of those; each (n,), NaN where undefined."""
    series: dict[str, Floats] = dict(scores)
    bounds: dict[str, Bounds] = {}
    for metric in metrics:
        name = str(metric)
        if name not in floor:
            continue
        low, high = metric.bounds(k)
        # Above 0 the candidate is farther from the baseline than the baseline from itself, whatever the direction of the
        # metric.
        excess = floor[name] - scores[name] if metric.higher_is_more_alike else scores[name] - floor[name]
        series |= {DerivedMetric.FLOOR.of(name): floor[name], DerivedMetric.OVER_FLOOR.of(name): excess}
        bounds |= {DerivedMetric.FLOOR.of(name): (low, high), DerivedMetric.OVER_FLOOR.of(name): (low - high, high - low)}
    return series, bounds
