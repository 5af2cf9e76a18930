"""From what was pulled to scores, summaries and evidence: what a run and a back-fill have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from monitor.metrics import Metric, Need, parse
from monitor.model import UNMEASURED, Comparison, Evidence, PairBatch, Pairing, Scores, Statistic, Summary, parse_derived
from monitor.pairing.vocabulary import decode
from monitor.summaries import choose_evidence, summarize

_NOT_KNOWN = {
    Need.SCORES: "neither arm tells scores",
    Need.ITEM_WEIGHTS: "the weights of items are not known",
}


def scorable(comparison: Comparison, batch: PairBatch) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """The comparison's metrics that this batch can be scored by, and sentences about those that it cannot.

    Nothing is said of relevance that is not there: it may arrive later.
    """
    metrics = tuple(parse(name) for name in comparison.metrics)
    known = {Need.SCORES: batch.scores, Need.ITEM_WEIGHTS: batch.weights, Need.RELEVANCE: batch.labels}
    lacking: dict[Need, list[str]] = {}
    for metric in metrics:
        if metric.need is not None and known[metric.need] is None:
            lacking.setdefault(metric.need, []).append(str(metric))
    left_out = tuple(
        f"{', '.join(names)} not measured: {_NOT_KNOWN[need]}" for need, names in lacking.items() if need in _NOT_KNOWN
    )
    return tuple(metric for metric in metrics if metric.need is None or metric.need not in lacking), left_out


def needing_relevance(comparison: Comparison) -> tuple[Metric, ...]:
    """The comparison's metrics that need relevance."""
    return tuple(metric for metric in map(parse, comparison.metrics) if metric.need is Need.RELEVANCE)


def summarize_scores(
    comparison: Comparison,
    segments: Mapping[str, npt.NDArray[np.intp]],
    scores: Scores,
    metrics: Sequence[Metric],
    bounds: Mapping[str, tuple[float, float]] | None = None,
) -> tuple[Summary, ...]:
    """Summaries with the statistics that the comparison's rules ask for; ``segments`` are rows of the scores.

    ``bounds`` of the scores that are not those of ``metrics``.
    """
    wanted: dict[str, list[Statistic]] = {}
    for rule in (each for each in comparison.rules if each.metric not in UNMEASURED):
        wanted.setdefault(rule.metric, []).append(Statistic.parse(rule.statistic))
    ranges = {str(metric): metric.bounds(comparison.k) for metric in metrics} | dict(bounds or {})
    return summarize(segments, scores.by_metric, ranges=ranges, wanted=wanted)


def gather_evidence(
    comparison: Comparison, pairing: Pairing, scores: Scores, metrics: Sequence[Metric]
) -> tuple[Evidence, ...]:
    """Lists of the worst and of ordinary users by the metric of the first rule, or the first metric that was measured."""
    if not metrics:
        return ()
    by_name = {str(metric): metric for metric in metrics}
    watched = (name for rule in comparison.rules if (name := parse_derived(rule.metric)[1]) in by_name)
    metric = by_name[next(watched, str(metrics[0]))]
    chosen = choose_evidence(
        scores.by_metric[str(metric)], comparison.evidence_users, higher_is_more_alike=metric.higher_is_more_alike
    )
    return tuple(
        Evidence(
            kind=kind,
            position=position,
            user=scores.users[row],
            baseline=decode(pairing.batch.baseline[row], pairing.vocabulary),
            candidate=decode(pairing.batch.candidate[row], pairing.vocabulary),
            scores={name: _defined(values[row]) for name, values in scores.by_metric.items()},
        )
        for kind, position, row in chosen
    )


def _defined(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)
