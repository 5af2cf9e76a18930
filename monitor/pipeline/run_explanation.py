"""Why a run's mean fell: by one metric, each user's lists compared with earlier lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

import numpy as np
import pandas as pd

from monitor.attribution.changes import (
    PairChanges,
    classify,
    compare_pairs,
    group_users,
    share_kinds,
)
from monitor.attribution.decomposition import (
    ExposureShift,
    MeanDrop,
    compare_exposure,
    decompose_drop,
    rows_of_place,
)
from monitor.attribution.faults import find_fault, find_missing
from monitor.attribution.habits import pool_bins, share_bins
from monitor.attribution.hypotheses import Scene
from monitor.attribution.parts import Parts, ScoreBatch, average_parts, split_distances
from monitor.attribution.sentences import (
    write_alert_text,
    write_cause,
    write_distance,
    write_drop,
    write_finding,
    write_lost,
)
from monitor.immutable import immutable
from monitor.metrics import Metric, Need, score_all
from monitor.model.alerts import State, Transition
from monitor.model.arrays import Floats, Rows
from monitor.model.explanation import (
    ExampleLists,
    Explanation,
    ExposedItem,
    FaultKind,
    Finding,
    Habits,
    Split,
)
from monitor.model.instants import format_instant
from monitor.model.rankings import (
    ALL,
    Arm,
    Coverage,
    CoverageNote,
    CoverageReason,
    PairBatch,
    Pairing,
)
from monitor.model.rules import Comparison, Condition, RuleKind
from monitor.model.run_reasons import IdMismatch, RunReasonKind, find_reason
from monitor.model.runs import Findings, RunStatus
from monitor.model.statistics import parse_derived
from monitor.pairing.ids import decode
from monitor.pipeline.accumulator import Sample
from monitor.pipeline.earlier_lists import RecodedLists
from monitor.pipeline.respelled import find_respelled
from monitor.pipeline.score import leading_metric

_CAUSE_SHARE = 0.5
"""A fault is the cause of a drop if it explains at least this share of the drop."""
_CAUSE_USERS = 0.05
"""Without a drop, a fault is a cause if it concerns at least this share of the users."""
_OTHER_ITEMS = (FaultKind.MIXED_UP, FaultKind.NOISE, FaultKind.REPLACED)
"""Faults that other items than in the last run look like, also when the fault is over."""
Notes: TypeAlias = Mapping[tuple[Arm, CoverageReason], CoverageNote]
"""What sources say about users without a list."""

HEALTHY_RUNS = 20
"""Newest healthy runs that a run is compared with."""
SHOWN_ITEMS = 10
"""Most items shown that gained, and that lost."""
SHOWN_EXAMPLES = 3
"""Most users shown for each kind of change, fewer if `evidence_users` is smaller."""
TITLED = 10
"""Places of an example's lists whose items get titles. They limit what is stored of a run."""


def can_split(metric: Metric) -> bool:
    """Whether distances by this metric have parts.

    Identical lists need a value, and the metric must not need relevance.
    """
    if metric.need is Need.RELEVANCE or metric.identical is None:
        return False
    return not math.isnan(metric.identical)


def split_metric(batch: PairBatch, metric: Metric) -> Parts:
    """The parts of each pair's distance by a metric that can be split. Costs six scorings."""
    return split_distances(batch, _similarity_by(metric))


def _similarity_by(metric: Metric) -> ScoreBatch:
    sign = 1.0 if metric.higher_is_more_alike else -1.0

    def score(batch: PairBatch) -> Floats:
        return sign * score_all(batch, (metric,))[str(metric)]

    return score


def choose_metric(comparison: Comparison, measured: Sequence[Metric]) -> Metric | None:
    """The metric to explain: that of the first rule whose metric can be split, else the first."""
    return leading_metric(comparison, [metric for metric in measured if can_split(metric)])


def explain_run(  # noqa: PLR0913 - the past is three of them
    comparison: Comparison,
    sample: Sample,
    measured: Sequence[Metric],
    past: Sequence[Split],
    *,
    former: RecodedLists | None,
    last: RecodedLists | None,
    mismatches: Sequence[IdMismatch],
    notes: Notes,
) -> tuple[Split | None, Explanation | None]:
    """The split for later runs and the explanation of this one, by one of the measured metrics.

    Both are None if no metric can be split.

    - ``past``: splits of earlier healthy runs.
    - ``former``: lists of an earlier healthy run, to compare each user's lists with.
    - ``last``: lists of the last run.
    - ``mismatches``: what is odd about the ids of this run.
    - ``notes``: why users got no list.

    Costs six scorings of the metric, and sixteen more if there are former lists.
    """
    metric = choose_metric(comparison, measured)
    if metric is None:
        return None, None
    pairing = sample.pairing
    parts = split_metric(pairing.batch, metric)
    means = average_parts(parts, sample.segments[ALL])
    if means is None:
        return None, None
    changes = _compare_metric(pairing.batch, metric, former, last)
    drop = None
    if changes is not None:
        drop = decompose_drop(parts.total, changes, sample.segments)
    past = [split for split in past if split.metric == str(metric)]
    scene = Scene(
        batch=pairing.batch,
        segments=sample.segments,
        coverage=pairing.coverage.rows,
        changes=changes,
        is_older=former is not last,
        habits=_pool_habits(past),
        usually_missing=_share_missing(past),
        drop=drop.amount if drop is not None and drop.is_clear else None,
    )
    split = Split(
        metric=str(metric),
        asked=pairing.coverage.all.asked,
        means=means,
        habits=_share_habits(scene),
    )
    names = _Names(pairing=pairing, users=sample.scores.users, former=former)
    examples = min(SHOWN_EXAMPLES, comparison.measuring.evidence_users)
    finding, other_is_unchanged = _find_cause(
        scene,
        names,
        mismatches,
        shows_items=comparison.judging.shows_items,
    )
    fault = _add_note(finding, pairing.coverage, notes), other_is_unchanged
    explanation = _explain(split, parts, scene, drop, names, examples, fault=fault)
    return split, replace(explanation, id_mismatches=tuple(mismatches))


def find_lost(findings: Findings) -> Finding | None:
    """Users without a list in a run that could not be judged; None if nobody was asked."""
    coverage = findings.measured.coverage
    if findings.status is RunStatus.OK or coverage is None:
        return None
    finding = find_missing(coverage.rows, None)
    if finding is None:
        return None
    loss = find_reason(findings.reasons, RunReasonKind.LOST_LISTS, finding.arms[0])
    for cause in loss.causes if loss is not None else ():
        if cause.text:
            return replace(finding, note=cause.text)
    return finding


def _share_missing(past: Sequence[Split]) -> float | None:
    """Usual share of the users without a score; None without earlier runs."""
    users = sum(split.asked for split in past)
    if not users:
        return None
    return 1 - sum(split.means.n for split in past) / users


def _add_note(finding: Finding | None, coverage: Coverage, notes: Notes) -> Finding | None:
    """The finding with the note of the source about most users without a list, if there is one."""
    if finding is None or finding.kind is not FaultKind.MISSING:
        return finding
    most_users, text = 0, None
    for (arm, reason), users in coverage.all.users_by_reason.items():
        note = notes.get((arm, reason))
        if arm is finding.arms[0] and note is not None and users > most_users:
            most_users = users
            text = note.text
    return replace(finding, note=text)


def _find_cause(
    scene: Scene,
    names: _Names,
    mismatches: Sequence[IdMismatch],
    *,
    shows_items: bool,
) -> tuple[Finding | None, bool | None]:
    """The fault, or the changed spelling of ids that looks like it.

    Also whether the other arm did not change.
    """
    finding, other_is_unchanged = find_fault(scene) or (None, None)
    respelled = find_respelled(scene, finding, names.name_item, mismatches)
    if respelled is None:
        return finding, other_is_unchanged
    if len(respelled.arms) > 1:
        other_is_unchanged = None
    return respelled if shows_items else respelled.without_examples, other_is_unchanged


def _compare_metric(
    batch: PairBatch,
    metric: Metric,
    former: RecodedLists | None,
    last: RecodedLists | None,
) -> PairChanges | None:
    """How each pair's distance by a metric changed since earlier lists. None without such lists."""
    # The weights and scores of the earlier items are not stored.
    if former is None or metric.need is not None:
        return None
    last_batch = None if last is None or last is former else last.batch
    changes = compare_pairs(batch, former.batch, _similarity_by(metric), last=last_batch)
    return changes if changes.is_known.any() else None


def _explain(  # noqa: PLR0913 - what was computed of a run
    split: Split,
    parts: Parts,
    scene: Scene,
    drop: MeanDrop | None,
    names: _Names,
    examples: int,
    *,
    fault: tuple[Finding | None, bool | None],
) -> Explanation:
    finding, other_is_unchanged = fault
    segment = ALL
    if finding is not None:
        segment = finding.segment
        sentence = write_finding(finding, drop, has_stood=other_is_unchanged)
    elif drop is not None:
        segment = drop.leader.segment if drop.leader is not None else ALL
        sentence = write_drop(drop)
    else:
        sentence = write_distance(split.means)
    rows = rows_of_place(segment, scene.segments)
    if not len(rows):
        # No user of the segment has lists that could be shown.
        rows = scene.segments[ALL]
    changes = scene.changes
    arm = _changed_arm(changes, finding)
    items = _compare_items(scene, rows, arm, names)
    before = None
    paired = 0
    if changes is not None:
        rows_before = rows[changes.is_known[rows]]
        before = share_kinds(classify(changes.former.take(rows_before)))
        paired = int(changes.is_known.sum())
    return Explanation(
        metric=split.metric,
        sentence=sentence,
        segment=segment,
        now=split.means.whole,
        gained=items.gained,
        lost=items.lost,
        entered=items.entered,
        left=items.left,
        groups=group_users(
            classify(scene.batch),
            parts,
            rows,
            before=before,
            show=names.show_lists,
            examples=examples,
        ),
        before=None if drop is None else drop.before,
        causes=() if drop is None else drop.causes,
        falls=() if drop is None else drop.falls,
        finding=finding,
        paired=paired,
        arm=arm,
    )


def _changed_arm(changes: PairChanges | None, finding: Finding | None) -> Arm | None:
    """The arm of the finding, else the arm that changed the distance more. None without changes."""
    if changes is None:
        return None
    if finding is not None:
        return finding.arms[0]
    baseline, candidate = (abs(float(np.nansum(changes.by_arm[arm].total))) for arm in Arm)
    return Arm.BASELINE if baseline > candidate else Arm.CANDIDATE


def _compare_items(
    scene: Scene,
    rows: Rows,
    arm: Arm | None,
    names: _Names,
) -> ExposureShift:
    """Items of these users that gained and lost.

    Compares the changed arm with its earlier lists, else both arms with each other.
    """
    if arm is None or scene.changes is None:
        batch = scene.batch.take(rows)
        return compare_exposure(batch.baseline, batch.candidate, SHOWN_ITEMS, names.name_item)
    lists = scene.changes.lists[arm]
    rows = rows[scene.changes.is_known[rows]]
    return compare_exposure(lists.former[rows], lists.present[rows], SHOWN_ITEMS, names.name_item)


def _share_habits(scene: Scene) -> Habits:
    """How much lists changed since the last run, for later runs: shares by arm, habit and bin."""
    if scene.is_older:
        # Over several runs lists change more than from one run to the next.
        return {}
    shares = {}
    for arm, habits in scene.bins.items():
        shares[str(arm)] = {str(habit): share_bins(bins) for habit, bins in habits.items()}
    return shares


def _pool_habits(splits: Sequence[Split]) -> Habits:
    """The habits, pooled over the runs that stored them."""
    runs: dict[str, dict[str, list[Sequence[float]]]] = {}
    for split in splits:
        for arm, habits in split.habits.items():
            for habit, shares in habits.items():
                runs.setdefault(arm, {}).setdefault(habit, []).append(shares)
    pooled = {}
    for arm, shares_by_habit in runs.items():
        pooled[arm] = {habit: pool_bins(shares) for habit, shares in shares_by_habit.items()}
    return pooled


def explained_items(explanation: Explanation | None) -> frozenset[str]:
    """Ids of the items that messages show: gained, lost, and in the first places of examples."""
    if explanation is None:
        return frozenset()
    items = {exposed.item for exposed in (*explanation.gained, *explanation.lost)}
    for example in explanation.examples:
        items.update(example.baseline[:TITLED], example.candidate[:TITLED])
    return frozenset(items)


def add_titles(explanation: Explanation | None, titles: Mapping[str, str]) -> Explanation | None:
    """The explanation with the titles of the items that have one."""
    if explanation is None or not titles:
        return explanation

    def add(items: Sequence[ExposedItem]) -> tuple[ExposedItem, ...]:
        return tuple(replace(item, title=titles.get(item.item)) for item in items)

    return replace(
        explanation,
        gained=add(explanation.gained),
        lost=add(explanation.lost),
        titles=titles,
    )


def recall_fault(
    current: Explanation | None, earlier: Iterable[tuple[datetime, Explanation]]
) -> Explanation | None:
    """The explanation of a run in which alerts begin.

    An alert that starts late, such as a trend, finds no cause in the changes since the last run.
    Then this is the newest of the ``earlier`` explanations with a cause, if there is one.
    """
    if current is not None:
        finding = current.finding
        looks_over = finding is None or (
            finding.explained is not None and finding.kind in _OTHER_ITEMS
        )
        if not looks_over or _is_cause(finding):
            return current
        for slot, explanation in earlier:
            if _is_cause(explanation.finding):
                return _mark_recalled(explanation, slot)
    return current


def _mark_recalled(explanation: Explanation, slot: datetime) -> Explanation:
    if explanation.is_recalled:
        return explanation
    sentence = f"Since the run of {format_instant(slot)}: {explanation.sentence}"
    return replace(explanation, sentence=sentence, is_recalled=True)


def _is_cause(finding: Finding | None) -> bool:
    if finding is None:
        return False
    if finding.explained is not None:
        return finding.explained >= _CAUSE_SHARE
    # A training that changed lists more than usual did not lower the mean then.
    return finding.kind is not FaultKind.REPLACED and finding.share >= _CAUSE_USERS


def add_explanations(
    transitions: Iterable[Transition],
    explanation: Explanation | None,
    also: Sequence[str] = (),
    *,
    lost: Finding | None = None,
) -> tuple[Transition, ...]:
    """The transitions with the explanation and ``also`` as text, where an alert begins.

    An alert on similarity always gets the explanation.
    Other alerts get it if it has a finding that adds something to their reason.
    ``lost``: users without a list, of a run that has no explanation.
    """
    finding = lost if explanation is None else explanation.finding
    explained = []
    for change in transitions:
        text = None
        is_wanted = change.kind is RuleKind.SIMILARITY or _adds_to(change, finding)
        if is_wanted and change.to_state is not State.QUIET:
            text = _write_cause(change, explanation, finding)
        if text is not None:
            headline = change.headline if finding is None else write_cause(finding)
            text = " ".join((text, *also))
            change = replace(change, explanation=text, headline=headline)  # noqa: PLW2901
        explained.append(change)
    return tuple(explained)


def _write_cause(
    change: Transition,
    explanation: Explanation | None,
    finding: Finding | None,
) -> str | None:
    is_explained = explanation is not None and change.kind is RuleKind.SIMILARITY
    if finding is not None and finding.kind is FaultKind.MISSING and not is_explained:
        return write_lost(finding)
    if explanation is None:
        return None
    return write_alert_text(explanation, parse_derived(change.metric)[1], change.segment)


def _adds_to(change: Transition, finding: Finding | None) -> bool:
    """Whether the finding says more than the change's reason."""
    if finding is None:
        return False
    if finding.kind is not FaultKind.MISSING or finding.segment != ALL or change.segment != ALL:
        return True
    # The reason of an alert on coverage already counts all users without a list.
    # The reason of a failed run already names its cause.
    return change.kind is RuleKind.CONDITION and change.statistic != Condition.ERROR


@immutable
class _Names:
    """Ids of the users and items of a run, also of items that only former lists have."""

    pairing: Pairing
    users: pd.Index[str]
    former: RecodedLists | None

    def name_item(self, code: int) -> str:
        vocabulary = self.pairing.vocabulary
        former = self.former
        if former is not None and code >= former.first_unknown:
            return str(former.unknown[code - former.first_unknown])
        return str(code if vocabulary is None else vocabulary[code])

    def show_lists(self, row: int) -> ExampleLists:
        batch = self.pairing.batch
        vocabulary = self.pairing.vocabulary
        return ExampleLists(
            user=self.users[row],
            baseline=decode(batch.baseline[row], vocabulary),
            candidate=decode(batch.candidate[row], vocabulary),
        )
