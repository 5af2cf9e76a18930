"""Computes scores, summaries and evidence from paired lists, and collects a run's scores."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pandas as pd

from monitor.metrics import Metric, Need, can_score, parse, score_all
from monitor.model.arrays import Flags, Floats, Rows
from monitor.model.rankings import PairBatch, Pairing, Pull, RelevanceTable, UserBatch
from monitor.model.rules import Comparison, Keep, MeasuringPlan, SimilarityRule
from monitor.model.runs import Evidence, EvidenceKind, KeptLists, Scores, Summary
from monitor.model.statistics import DerivedMetric, Statistic, parse_derived
from monitor.pairing import pair
from monitor.pairing.ids import decode
from monitor.ports import ScoreSpool
from monitor.sampling import select_kept
from monitor.summaries import Bounds, SummaryAccumulator

_T = TypeVar("_T")
_LACK_WORDS = {
    Need.SCORES: "neither arm gives scores",
    Need.ITEM_WEIGHTS: "the weights of items are not known",
}

HELD_USERS = 1_000_000
"""The scores of at most this many users are in memory. With more users, a spool stores them."""
GIVEN_USERS = 100_000
"""Number of users in one batch of scores."""


def scorable_metrics(
    measuring: MeasuringPlan, batch: PairBatch
) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """The metrics that can score this batch, and sentences about metrics that cannot."""
    metrics = tuple(parse(name) for name in measuring.metrics)
    lacking: dict[Need, list[str]] = {}
    for metric in metrics:
        if metric.need is not None and not can_score(metric, batch):
            lacking.setdefault(metric.need, []).append(str(metric))
    # Missing relevance gets no sentence, since it may arrive later.
    left_out = []
    for need, names in lacking.items():
        if need in _LACK_WORDS:
            left_out.append(f"{', '.join(names)} not measured: {_LACK_WORDS[need]}")
    return tuple(metric for metric in metrics if can_score(metric, batch)), tuple(left_out)


def relevance_metrics(measuring: MeasuringPlan) -> tuple[Metric, ...]:
    """The metrics of the plan that need relevance."""
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
    """Summaries with the statistics that the rules need. ``segments`` are rows of ``scores``."""
    accumulator = SummaryAccumulator(segments, wanted_statistics(rules))
    accumulator.add(segments, scores.by_metric, score_ranges(metrics, k))
    return accumulator.summaries()


def wanted_statistics(rules: Iterable[SimilarityRule]) -> dict[str, list[Statistic]]:
    """The statistics that the rules need, by metric or derived series."""
    wanted: dict[str, list[Statistic]] = {}
    for rule in rules:
        wanted.setdefault(rule.metric, []).append(rule.statistic)
    return wanted


def score_ranges(metrics: Iterable[Metric], k: int) -> dict[str, Bounds]:
    """The bounds of each metric's scores on lists of at most k items."""
    return {str(metric): metric.bounds(k) for metric in metrics}


def score_kept_lists(
    lists: KeptLists,
    k: int,
    metrics: Sequence[Metric],
    relevance: RelevanceTable | None = None,
) -> Scores:
    """Scores of the users whose lists were stored. The lists are cut to k."""
    baseline, candidate = (
        Pull(rankings=rankings, failures={}) for rankings in (lists.baseline, lists.candidate)
    )
    # Lists are stored for paired users only, so rows and segments stay the same.
    pairing = pair(lists.panel, baseline, candidate, k, relevance=relevance)
    return Scores(
        users=lists.baseline.users, by_metric=score_all(pairing.batch, metrics, failed={})
    )


def leading_metric(comparison: Comparison, metrics: Sequence[Metric]) -> Metric | None:
    """The metric that selects examples and explains runs.

    It is the metric of the first rule. If no rule has a measured metric, it is the first metric.
    """
    by_name = {str(metric): metric for metric in metrics}
    for rule in comparison.judging.similarity_rules:
        # A rule on a derived series watches its metric.
        name = parse_derived(rule.metric)[1]
        if name in by_name:
            return by_name[name]
    return metrics[0] if metrics else None


def show_user(
    pairing: Pairing,
    scores: Scores,
    row: int,
    kind: EvidenceKind,
    position: int,
) -> Evidence:
    """Both lists of one user as item ids. ``row`` is the user's row in pairing and scores."""
    user_scores: dict[str, float | None] = {}
    for name, values in scores.by_metric.items():
        value = float(values[row])
        user_scores[name] = None if math.isnan(value) else value
    return Evidence(
        kind=kind,
        position=position,
        user=scores.users[row],
        baseline=decode(pairing.batch.baseline[row], pairing.vocabulary),
        candidate=decode(pairing.batch.candidate[row], pairing.vocabulary),
        scores=user_scores,
    )


def measure_floor(
    users: UserBatch,
    pairing: Pairing,
    k: int,
    metrics: Sequence[Metric],
    failed: dict[str, str],
) -> dict[str, Floats]:
    """Compare the baseline's first and second lists. Returns scores by metric.

    Each row of ``pairing`` has one score. The score is NaN for a user without a second list. Left
    out are metrics that need relevance, and metrics whose scores or weights are missing in either
    list. The result is empty if there are no second lists.
    """
    if users.again is None:
        return {}
    again = pair(users.panel, users.baseline, users.again, k, item_weights=users.weights)
    rows = np.full(len(users.panel), -1, dtype=np.intp)
    rows[again.panel_rows] = np.arange(len(again.panel_rows))
    rows = rows[pairing.panel_rows]
    usable = [metric for metric in metrics if can_score(metric, again.batch)]
    if not usable:
        return {}
    scores = score_all(again.batch, usable, failed=failed)
    # Users without a second list have row -1, which is the appended NaN.
    return {name: np.append(values, np.nan)[rows] for name, values in scores.items()}


def add_floor(
    scores: Mapping[str, Floats],
    floor: Mapping[str, Floats],
    metrics: Sequence[Metric],
    k: int,
) -> tuple[dict[str, Floats], dict[str, Bounds]]:
    """Add the series of the noise floor to the scores, (n,) each.

    Returns the scores with these series, and the bounds of these series. Undefined values are NaN.
    """
    series: dict[str, Floats] = dict(scores)
    bounds: dict[str, Bounds] = {}
    for metric in metrics:
        name = str(metric)
        if name not in floor:
            continue
        low, high = metric.bounds(k)
        # If the excess is above 0, the candidate is farther from the baseline than the baseline is
        # from itself.
        if metric.higher_is_more_alike:
            excess = floor[name] - scores[name]
        else:
            excess = scores[name] - floor[name]
        series |= {
            DerivedMetric.FLOOR.of(name): floor[name],
            DerivedMetric.OVER_FLOOR.of(name): excess,
        }
        bounds |= {
            DerivedMetric.FLOOR.of(name): (low, high),
            DerivedMetric.OVER_FLOOR.of(name): (low - high, high - low),
        }
    return series, bounds


def without_failed(by_metric: Mapping[str, _T], failed: Collection[str]) -> dict[str, _T]:
    """The values by metric, without metrics that failed for any user and their derived series."""
    return {
        name: value for name, value in by_metric.items() if parse_derived(name)[1] not in failed
    }


class RunScores:
    """The scores of a run. Each user occurs once. The scores can be read until `close`.

    Iterates over batches. All batches have the same metrics, and users ascend.
    """

    def __init__(
        self, open_spool: Callable[[], ScoreSpool] | None = None, held_users: int = HELD_USERS
    ) -> None:
        self.count = 0
        self.failed: Collection[str] = ()  # metrics that the batches leave out
        self._open_spool = open_spool
        self._max_held_users = held_users
        self._held: list[Scores] = []
        self._spool: ScoreSpool | None = None

    def add(self, scores: Scores) -> None:
        """Add scores of new users. Raises OutputError if the spool cannot store them."""
        self.count += len(scores.users)
        self._held.append(scores)
        if self._open_spool is not None and self.count > self._max_held_users:
            self._spool = self._spool or self._open_spool()
            for held in self._held:
                self._spool.add(held)
            self._held = []

    def __iter__(self) -> Iterator[Scores]:
        batches = self._sorted() if self._spool is None else self._spool.batches()
        for batch in batches:
            yield replace(batch, by_metric=without_failed(batch.by_metric, self.failed))

    def _sorted(self) -> Iterator[Scores]:
        if not self._held:
            return
        scores = join_scores(self._held)
        if not scores.users.is_monotonic_increasing:
            scores = _at(scores, scores.users.argsort())
        self._held = [scores]
        for start in range(0, len(scores.users), GIVEN_USERS):
            yield _at(scores, slice(start, start + GIVEN_USERS))

    def close(self) -> None:
        """Free the scores and delete the spool."""
        self._held = []
        if self._spool is not None:
            self._spool.close()


def take_scores(scores: Scores, is_taken: Flags) -> Scores:
    """The scores of the selected users, bool (n,)."""
    return scores if is_taken.all() else _at(scores, np.flatnonzero(is_taken))


def draw_scores(scores: Scores, keep: Keep | int, comparison: Comparison) -> Scores:
    """Draw the scores that a run stores.

    Scores may be drawn from batches, joined, and drawn again. The result is the same as one draw
    from all scores. See `select_kept`.
    """
    if keep is Keep.ALL:
        return scores
    return take_scores(scores, select_kept(scores.users, keep, comparison))


def join_scores(parts: Sequence[Scores]) -> Scores:
    """Join parts into one. Users keep their order. If a part lacks a metric, its scores are NaN."""
    if len(parts) == 1:
        return parts[0]
    names = dict.fromkeys(name for part in parts for name in part.by_metric)

    def column(name: str) -> Floats:
        columns = []
        for part in parts:
            undefined = np.full(len(part.users), np.nan)
            columns.append(part.by_metric.get(name, undefined))
        return np.concatenate(columns)

    users: pd.Index[str] = parts[0].users.append([part.users for part in parts[1:]])
    return Scores(users=users, by_metric={name: column(name) for name in names})


def _at(scores: Scores, rows: slice | np.ndarray) -> Scores:
    return Scores(
        users=scores.users[rows],
        by_metric={name: values[rows] for name, values in scores.by_metric.items()},
    )
