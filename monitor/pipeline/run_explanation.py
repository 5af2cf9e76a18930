"""Why a run's mean fell: the parts of one metric, compared with earlier healthy runs, in ids and words instead of codes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from monitor.attribution import (
    CodedExplanation,
    CurrentRun,
    EarlierLists,
    ExposureShift,
    Group,
    ItemShift,
    MeanDrop,
    PairChanges,
    Parts,
    PastRuns,
    average_parts,
    bin_changes,
    classify,
    compare_pairs,
    describe_difference,
    explain_metric,
    pool_bins,
    pool_kinds,
    pool_runs,
    share_bins,
    share_kinds,
    split_distances,
    write_alert_text,
)
from monitor.metrics import Metric, Need, score_all
from monitor.model import (
    ALL,
    Comparison,
    ExampleLists,
    Explanation,
    ExposedItem,
    PairBatch,
    Pairing,
    RuleKind,
    SegmentFall,
    Split,
    State,
    Transition,
    UserGroup,
    parse_derived,
)
from monitor.pairing.ids import decode
from monitor.pipeline.accumulator import Sample
from monitor.pipeline.earlier_lists import RecodedLists, earlier_lists
from monitor.pipeline.score import watched_metrics

HEALTHY_RUNS = 20
"""Newest healthy runs that a run is held against."""

SHOWN_ITEMS = 10
"""Items shown that gained, and that lost."""

SHOWN_EXAMPLES = 3
"""Most users shown of each kind of change; fewer where the comparison keeps the lists of fewer."""


def can_split(metric: Metric) -> bool:
    """Whether distances by this metric come apart: identical lists have a value, and relevance is not needed."""
    return metric.need is not Need.RELEVANCE and metric.identical is not None and not math.isnan(metric.identical)


def split_metric(batch: PairBatch, metric: Metric) -> Parts:
    """The parts of each pair's distance by a metric that can be split. Costs six scorings of it."""
    return split_distances(
        batch,
        lambda step: score_all(step, (metric,))[str(metric)],
        higher_is_more_alike=metric.higher_is_more_alike,
    )


def choose_metric(comparison: Comparison, measured: Sequence[Metric]) -> Metric | None:
    """The metric to explain: that of the first rule on one that was measured and can be split, else the first such metric."""
    known = {str(metric): metric for metric in measured if can_split(metric)}
    # A rule on a derived series watches its metric.
    watched = (name for name in watched_metrics(comparison.judging.similarity_rules) if name in known)
    return known.get(next(watched, next(iter(known), "")))


def find_farthest(metric: Metric, k: int) -> float:
    """The greatest distance from identical lists that lists of at most k items can have, infinite where nothing bounds it."""
    low, high = metric.bounds(k)
    identical = metric.identical
    return math.inf if identical is None else abs(identical - (low if metric.higher_is_more_alike else high))


def explain_run(
    comparison: Comparison,
    sample: Sample,
    measured: Sequence[Metric],
    past: Sequence[Split],
    *,
    former: RecodedLists | None = None,
    last: RecodedLists | None = None,
) -> tuple[Split | None, Explanation | None]:
    """What the run keeps for later ones of one of the measured metrics, and its own explanation.

    No split where no metric can be split, no explanation where no user's parts are known. ``past``: splits of earlier healthy
    runs; those of other metrics are passed over. ``former``: lists of a healthy run before, against which each user's are held;
    ``last``: those of the last run. Costs six scorings of the metric, and sixteen more where lists are held against others.
    """
    metric, pairing, segments = choose_metric(comparison, measured), sample.pairing, sample.segments
    if metric is None:
        return None, None
    parts = split_metric(pairing.batch, metric)
    asked = {row.segment: row.asked for row in pairing.coverage.rows}
    # What weights and scores the items had then is not known.
    earlier = None if former is None or metric.need is not None else earlier_lists(former, last, pairing)
    changes = None if earlier is None else compare_metric(pairing.batch, earlier, metric)
    present = CurrentRun(
        batch=pairing.batch,
        parts=parts,
        segments=segments,
        means=average_parts(parts, segments, asked),
        coverage=pairing.coverage.rows,
        changes=changes,
        bins={} if changes is None else bin_changes(changes),
        is_older=former is not last,
    )
    split = _keep_split(metric, present)
    # After a change of the metric earlier splits are of another scale.
    known = [each for each in past if each.metric == split.metric]
    farthest = find_farthest(metric, comparison.measuring.k)
    examples = min(SHOWN_EXAMPLES, comparison.measuring.evidence_users)
    naming = _Naming(pairing=pairing, users=sample.scores.users, former=former)
    if known or changes is not None:
        found = explain_metric(present, _pool(known), farthest=farthest, top=SHOWN_ITEMS, examples=examples)
        if found is not None:
            return split, _name_explanation(found, split, len(known), 0 if changes is None else len(changes.rows), naming)
    if not present.means[0].n:
        return split, None
    difference = describe_difference(present, top=SHOWN_ITEMS, examples=examples)
    return split, replace(_name_common(difference.items, difference.groups, split, naming), sentence=difference.sentence)


def compare_metric(batch: PairBatch, earlier: EarlierLists, metric: Metric) -> PairChanges:
    """How each pair's distance by a metric changed since earlier lists."""
    return compare_pairs(
        batch,
        earlier,
        lambda step: score_all(step, (metric,))[str(metric)],
        higher_is_more_alike=metric.higher_is_more_alike,
    )


def _keep_split(metric: Metric, present: CurrentRun) -> Split:
    """What later runs are held against."""
    kinds = classify(present.batch)
    # Over several runs lists change more than from one to the next.
    habits = (
        {}
        if present.is_older
        else {
            str(arm): {str(habit): share_bins(bins) for habit, bins in of_arm.items()} for arm, of_arm in present.bins.items()
        }
    )
    return Split(
        metric=str(metric),
        means=tuple(present.means),
        kinds={name: share_kinds(kinds[rows]) for name, rows in present.segments.items() if len(rows)},
        habits=habits,
    )


def explained_items(explanation: Explanation | None) -> frozenset[str]:
    """Ids of the items that the explanation names."""
    return frozenset() if explanation is None else frozenset(each.item for each in (*explanation.gained, *explanation.lost))


def add_titles(explanation: Explanation | None, titles: Mapping[str, str]) -> Explanation | None:
    """The explanation with the titles of the items that have one."""
    if explanation is None or not titles:
        return explanation
    gained, lost = (
        tuple(replace(each, title=titles.get(each.item)) for each in items) for items in (explanation.gained, explanation.lost)
    )
    return replace(explanation, gained=gained, lost=lost)


def add_explanations(transitions: Iterable[Transition], explanation: Explanation | None) -> tuple[Transition, ...]:
    """The transitions with the explanation as text, where an alert on similarity begins; others need none."""
    return tuple(
        replace(each, explanation=write_alert_text(explanation, metric=parse_derived(each.metric)[1], segment=each.segment))
        if explanation is not None and each.kind is RuleKind.SIMILARITY and each.to_state is not State.QUIET
        else each
        for each in transitions
    )


def _pool(splits: Sequence[Split]) -> PastRuns:
    by_habit: dict[str, dict[str, list[Sequence[float]]]] = {}
    for split in splits:
        for arm, habits in split.habits.items():
            for habit, shares in habits.items():
                by_habit.setdefault(arm, {}).setdefault(habit, []).append(shares)
    return PastRuns(
        means=pool_runs([each.means for each in splits]),
        kinds=pool_kinds([each.kinds for each in splits]),
        habits={arm: {habit: pool_bins(runs) for habit, runs in habits.items()} for arm, habits in by_habit.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Naming:
    pairing: Pairing
    users: pd.Index[str]
    former: RecodedLists | None = None

    def name_items(self, shifts: Iterable[ItemShift]) -> tuple[ExposedItem, ...]:
        return tuple(
            ExposedItem(
                item=self._name_item(each.code),
                title=None,
                before=each.before,
                after=each.after,
                share_before=each.share_before,
                share_after=each.share_after,
            )
            for each in shifts
        )

    def name_group(self, group: Group) -> UserGroup:
        return UserGroup(
            change=group.change,
            users=group.users,
            share=group.share,
            share_before=group.share_before,
            distance=group.distance,
            examples=tuple(self._show_lists(row) for row in group.medoids),
        )

    def _name_item(self, code: int) -> str:
        vocabulary, former = self.pairing.vocabulary, self.former
        if former is not None and code >= former.first_unknown:
            return str(former.unknown[code - former.first_unknown])
        return str(code if vocabulary is None else vocabulary[code])

    def _show_lists(self, row: int) -> ExampleLists:
        batch, vocabulary = self.pairing.batch, self.pairing.vocabulary
        lists = (decode(codes[row], vocabulary) for codes in (batch.baseline, batch.candidate))
        baseline, candidate = lists
        return ExampleLists(user=self.users[row], baseline=baseline, candidate=candidate)


def _name_explanation(found: CodedExplanation, split: Split, runs: int, paired: int, naming: _Naming) -> Explanation:
    plain = _name_common(found.items, found.groups, split, naming)
    return replace(
        plain,
        runs=runs,
        paired=paired,
        finding=found.finding,
        arm=found.arm,
        sentence=found.sentence,
        segment=found.segment,
        now=found.drop.now,
        before=found.drop.before,
        least=found.bounds[0],
        most=found.bounds[1] if math.isfinite(found.bounds[1]) else None,
        causes=found.causes,
        falls=tuple(fall for drop in found.drops for fall in _list_falls(drop)),
    )


def _name_common(items: ExposureShift, groups: Iterable[Group], split: Split, naming: _Naming) -> Explanation:
    return Explanation(
        metric=split.metric,
        runs=0,
        sentence="",
        segment=ALL,
        now=split.means[0].whole,
        gained=naming.name_items(items.gained),
        lost=naming.name_items(items.lost),
        entered=items.entered,
        left=items.left,
        groups=tuple(naming.name_group(group) for group in groups),
    )


def _list_falls(drop: MeanDrop) -> list[SegmentFall]:
    return [
        SegmentFall(
            segment=each.segment, share=each.share, share_before=each.share_before, parts=each.parts, excess=each.excess
        )
        for each in drop.segments
    ]
