"""Statistics that a stored run was not asked for, made up for from the lists or scores that were kept with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.errors import MonitorError
from monitor.metrics import Metric, parse, score_all
from monitor.model import ALL, UNMEASURED, Comparison, KeptLists, Pull, Rule, RunRecord, Scores, Statistic, Summary
from monitor.pairing import pair
from monitor.pipeline.scoring import summarize_scores
from monitor.ports import Store
from monitor.summaries.summarize import summarize_one


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled:
    """A run with what could be made up for, and the alerts of the rules that it still cannot be judged by."""

    record: RunRecord
    lacking: tuple[str, ...]


def refill(comparison: Comparison, record: RunRecord, store: Store) -> Refilled:
    """Add what the comparison's rules ask for and the summaries lack.

    From kept lists for every segment, where the metric needs nothing but lists; else from kept scores for `all`. A rule lacks
    the run where that was not enough for `all`, or for any segment that its metric is summarized in.
    """
    asked = [rule for rule in comparison.rules if rule.metric not in UNMEASURED and _lacks(record.summaries, rule)]
    if not asked:
        return Refilled(record=record, lacking=())
    metrics = tuple(dict.fromkeys(rule.metric for rule in asked))
    found = [*_from_lists(comparison, store.kept_lists(record.run.id), metrics)]
    found += [each for metric in metrics for each in _from_scores(comparison, record, store, metric)] if not found else []
    new = {(each.segment, each.metric): each for each in found}
    merged = {(each.segment, each.metric): each for each in record.summaries} | new
    summaries = tuple(merged.values())
    lacking = tuple(rule.alert for rule in asked if _lacks(summaries, rule))
    return Refilled(record=replace(record, summaries=summaries), lacking=lacking)


def _lacks(summaries: Sequence[Summary], rule: Rule) -> bool:
    """Whether nobody can say what the rule's statistic was; a run that measured nothing at all lacks nothing."""
    mine = [each for each in summaries if each.metric == rule.metric]
    wanted = (ALL,) if rule.segments == "all" else None if rule.segments == "each" else rule.segments
    looked_at = [each for each in mine if wanted is None or each.segment in wanted]
    return bool(summaries) and (not mine or any(each.n and each.value(rule.statistic) is None for each in looked_at))


def _from_lists(comparison: Comparison, lists: KeptLists | None, names: Iterable[str]) -> tuple[Summary, ...]:
    metrics = [metric for metric in map(_readable, names) if metric is not None and metric.need is None]
    if lists is None or not metrics:
        return ()
    baseline, candidate = (Pull(rankings=rankings, failures={}) for rankings in (lists.baseline, lists.candidate))
    pairing = pair(lists.panel, baseline, candidate, comparison.k)
    scores = Scores(users=lists.baseline.users, by_metric=score_all(pairing.batch, metrics))
    return summarize_scores(comparison, lists.segments, scores, metrics)


def _from_scores(comparison: Comparison, record: RunRecord, store: Store, name: str) -> tuple[Summary, ...]:
    before = next((each for each in record.summaries if (each.segment, each.metric) == (ALL, name)), None)
    if before is None:
        return ()
    kept = store.worst_users(record.run.id, name, before.n)
    if len(kept) != before.n:
        return ()
    values = np.array([each.value for each in kept], dtype=np.float64)
    wanted = [Statistic.parse(rule.statistic) for rule in comparison.rules if rule.metric == name]
    found = summarize_one(ALL, name, values, (before.histogram.low, before.histogram.high), wanted)
    return (replace(found, n_undefined=before.n_undefined),)


def _readable(name: str) -> Metric | None:
    """The metric, None for a series that is none of two lists."""
    try:
        return parse(name)
    except MonitorError:
        return None
