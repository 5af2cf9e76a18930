"""Explains why a run's mean fell. Compares each user's lists with the user's earlier lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

import numpy as np
import pandas as pd

from monitor.measures.metrics import Metric, Need, score_all
from monitor.measures.pairing.ids import decode
from monitor.model.alerts import State, Transition
from monitor.model.arrays import Flags, Floats, Rows
from monitor.model.explanation import (
    SIMILAR_FAULTS,
    ExampleLists,
    Explanation,
    ExposedItem,
    FaultKind,
    Finding,
    Habits,
    MeanDrop,
    Split,
)
from monitor.model.immutable import immutable
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
from monitor.model.statistics import ABOUT_ORDER, OF_SIMILARITY, Lack, parse_derived
from monitor.pipeline.accumulator import Sample
from monitor.pipeline.earlier_lists import RecodedLists
from monitor.pipeline.respelled import find_respelled
from monitor.pipeline.score import leading_metric, watches_rise
from monitor.statistics.attribution.changes import (
    PairChanges,
    classify,
    compare_pairs,
    group_users,
    share_kinds,
)
from monitor.statistics.attribution.decomposition import (
    ExposureShift,
    compare_exposure,
    decompose_drop,
    rows_of_place,
)
from monitor.statistics.attribution.faults import find_fault, find_missing
from monitor.statistics.attribution.habits import pool_bins, share_bins
from monitor.statistics.attribution.hypotheses import Scene
from monitor.statistics.attribution.parts import Parts, ScoreBatch, average_parts, split_distances
from monitor.texts.explanations import (
    write_alert_text,
    write_cause,
    write_distance,
    write_drop,
    write_finding,
    write_lost,
    write_recalled,
)

_CAUSE_SHARE = 0.5
"""A fault is the cause of a drop if it explains at least this share of the drop."""
_CAUSE_USERS = 0.05
"""If there is no drop, a fault is a cause if at least this share of the users has it."""
_OTHER_ITEMS = (FaultKind.MIXED_UP, FaultKind.NOISE, FaultKind.REPLACED)
"""Faults that explain many new items. The end of such a fault brings many new items too."""
_OF_TRAININGS = (*_OTHER_ITEMS, FaultKind.REORDERED, *SIMILAR_FAULTS)
"""A new training of a model can look like these faults."""
_OF_FIRST_ITEMS = (FaultKind.REORDERED, FaultKind.SHIFTED, FaultKind.ITEMS_RISEN)
"""Faults that change the first items of lists."""
Notes: TypeAlias = Mapping[tuple[Arm, CoverageReason], CoverageNote]
"""Notes of the sources about users without a list."""

HEALTHY_RUNS = 20
"""A run is compared with at most this many of the newest healthy runs."""
SHOWN_ITEMS = 10
"""The largest number of items to name that users are shown more often. Items that users are shown
less often have the same limit."""
SHOWN_EXAMPLES = 3
"""For each kind of change, at most this many users are shown, and at most `evidence_users`."""
TITLED = 10
"""Only this many items of an example's lists get titles, because titles are stored."""


def can_split(metric: Metric) -> bool:
    """Return whether distances by this metric can be split into parts.

    The metric must have a value for identical lists, and it must not need relevance.
    """
    if metric.need is Need.RELEVANCE or metric.identical is None:
        return False
    return not math.isnan(metric.identical)


def split_metric(batch: PairBatch, metric: Metric, scores: Floats | None = None) -> Parts:
    """Split each pair's distance by the metric into parts.

    This takes as long as two to six scorings. ``scores`` are the pairs' scores, if they are known.
    """
    similarities = None if scores is None else _sign(metric) * scores
    return split_distances(batch, _similarity_by(metric), similarities)


def _sign(metric: Metric) -> float:
    return 1.0 if metric.higher_is_more_alike else -1.0


def _similarity_by(metric: Metric) -> ScoreBatch:
    sign = _sign(metric)

    def score(batch: PairBatch) -> Floats:
        return sign * score_all(batch, (metric,))[str(metric)]

    return score


def choose_metric(comparison: Comparison, measured: Sequence[Metric]) -> Metric | None:
    """Return the metric by which a run is explained.

    It is the metric of the first rule whose metric can be split. If there is no such rule, it is
    the first metric that can be split.
    """
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
    """Explain a run by one of the measured metrics.

    Returns the split distances, which later runs use, and the explanation. Both are None if no
    metric can be split.

    - ``past`` are the splits of earlier healthy runs.
    - ``former`` are the lists of an earlier healthy run, with which this run's lists are compared.
    - ``last`` are the lists of the last run.
    - ``mismatches`` say how ids of this run do not match.
    - ``notes`` say why users got no list.

    This takes as long as two to five scorings. With ``former`` it takes sixteen scorings more.
    """
    metric = choose_metric(comparison, measured)
    if metric is None:
        return None, None
    pairing = sample.pairing
    scores = sample.scores.by_metric[str(metric)]
    parts = split_metric(pairing.batch, metric, scores)
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
        coverage=sample.coverage.rows,
        changes=changes,
        is_older=former is not last,
        habits=_average_habits(past),
        usually_missing=_share_missing(past),
        drop=drop.amount if drop is not None and drop.is_clear else None,
        is_rise=drop is not None and drop.is_rise,
    )
    split = Split(
        metric=str(metric),
        asked=sample.coverage.all.asked,
        means=means,
        habits=_habit_shares(scene),
    )
    names = _Names(pairing=pairing, users=sample.scores.users, former=former)
    examples = min(SHOWN_EXAMPLES, comparison.measuring.evidence_users)
    finding, other_is_unchanged, hit = _find_cause(
        scene,
        names,
        mismatches,
        shows_items=comparison.judging.shows_items,
    )
    fault = _add_note(finding, sample.coverage, notes), other_is_unchanged, hit
    explanation = _explain(split, parts, scene, drop, names, examples, fault=fault)
    return split, replace(explanation, id_mismatches=tuple(mismatches))


def find_lost(findings: Findings) -> Finding | None:
    """Find users without a list in a run that could not be judged.

    Return None if the run is ok, or if hardly any users lack a list.
    """
    coverage = findings.coverage
    if findings.status is RunStatus.OK or coverage is None:
        return None
    if coverage.all.paired and findings.unpaired is not None:
        # An arm of a test does not serve all its users in each run.
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
    """Return the usual share of users without a score, or None without earlier runs."""
    users = sum(split.asked for split in past)
    if not users:
        return None
    return 1 - sum(split.means.n for split in past) / users


def _add_note(finding: Finding | None, coverage: Coverage, notes: Notes) -> Finding | None:
    """Add a source's note to a finding about users without a list. Other findings stay as they are.

    If there are several notes, the note about the largest number of users is added.
    """
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
) -> tuple[Finding | None, bool | None, Flags | None]:
    """Find the fault, or None. If differently spelled ids explain it, find their spelling instead.

    The second value is about the other arm, and the third about users, as in `find_fault`.
    """
    finding, other_is_unchanged, hit = find_fault(scene) or (None, None, None)
    respelled = find_respelled(scene, finding, names.name_item, mismatches)
    if respelled is None:
        return finding, other_is_unchanged, hit
    if len(respelled.arms) > 1:
        other_is_unchanged = None
    if not shows_items:
        respelled = respelled.without_examples
    return respelled, other_is_unchanged, None


def _compare_metric(
    batch: PairBatch,
    metric: Metric,
    former: RecodedLists | None,
    last: RecodedLists | None,
) -> PairChanges | None:
    """Measure how each pair's distance changed since the lists of an earlier run (``former``).

    ``last`` are the lists of the last run. Usually these are the same lists.

    None if there are no earlier lists, if no user of this run has earlier lists of both arms, or if
    the metric needs item weights or scores, because earlier ones are not stored.
    """
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
    fault: tuple[Finding | None, bool | None, Flags | None],
) -> Explanation:
    """Make the explanation of a run from its finding, or from its drop, or from its distance.

    The first of these that exists is used. ``fault`` is the result of `_find_cause`.
    """
    finding, other_is_unchanged, hit = fault
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
        # No user of the segment has lists to show, so lists of all users are shown.
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
            hit=hit,
        ),
        before=None if drop is None else drop.before,
        causes=() if drop is None else drop.causes,
        falls=() if drop is None else drop.falls,
        finding=finding,
        paired=paired,
        arm=arm,
    )


def _changed_arm(changes: PairChanges | None, finding: Finding | None) -> Arm | None:
    """Return the arm of the finding. Without a finding, the arm that changed the distance more.

    Return None if there are no earlier lists.
    """
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
    """Find the items that these users are shown more, and the items that they are shown less.

    The changed arm is compared with its earlier lists. If there are none, the candidate is compared
    with the baseline.
    """
    if arm is None or scene.changes is None:
        batch = scene.batch.take(rows)
        return compare_exposure(batch.baseline, batch.candidate, SHOWN_ITEMS, names.name_item)
    lists = scene.changes.lists[arm]
    rows = rows[scene.changes.is_known[rows]]
    return compare_exposure(lists.former[rows], lists.present[rows], SHOWN_ITEMS, names.name_item)


def _habit_shares(scene: Scene) -> Habits:
    """Return how much lists changed since the last run, as shares of users by arm, habit and bin.

    Later runs learn from these shares how much lists usually change.
    """
    if scene.is_older:
        # These lists are of an older run, and lists change more over several runs than over one.
        return {}
    shares = {}
    for arm, habits in scene.bins.items():
        shares[str(arm)] = {str(habit): share_bins(bins) for habit, bins in habits.items()}
    return shares


def _average_habits(splits: Sequence[Split]) -> Habits:
    """Return the means of the shares of `_habit_shares` over the runs that stored shares."""
    by_arm: dict[str, dict[str, list[Sequence[float]]]] = {}
    for split in splits:
        for arm, habits in split.habits.items():
            for habit, shares in habits.items():
                by_arm.setdefault(arm, {}).setdefault(habit, []).append(shares)
    means = {}
    for arm, runs_by_habit in by_arm.items():
        means[arm] = {habit: pool_bins(runs) for habit, runs in runs_by_habit.items()}
    return means


def explained_items(explanation: Explanation | None) -> frozenset[str]:
    """Return the ids of the items that messages show.

    These are the items that are shown more or less, and the first items of the examples' lists.
    """
    if explanation is None:
        return frozenset()
    items = {exposed.item for exposed in (*explanation.gained, *explanation.lost)}
    for example in explanation.examples:
        items.update(example.baseline[:TITLED], example.candidate[:TITLED])
    return frozenset(items)


def add_titles(explanation: Explanation | None, titles: Mapping[str, str]) -> Explanation | None:
    """Add titles to the items of an explanation. None stays None."""
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
    current: Explanation | None,
    earlier: Sequence[tuple[datetime, Explanation]],
    starts: Sequence[Transition],
) -> Explanation | None:
    """Select the explanation for a run in which alerts begin (``starts``).

    ``earlier`` are the explanations of earlier runs with their slots, newest first. Returns None if
    ``current`` is None.

    Some alerts begin late, such as alerts on trends. Then the changes since the last run do not
    show the cause, so the newest of the ``earlier`` explanations with a cause is used. If there is
    none and this run found nothing, an earlier fault that explains less is used. But it is not used
    if a new training of a model can look like this fault.
    """
    if current is None:
        return None
    finding = current.finding
    is_order = all(_is_about(start, ABOUT_ORDER) for start in starts)
    if is_order and (finding is None or finding.kind in _OF_TRAININGS):
        return _recall_order(current, earlier)
    looks_over = finding is None or (finding.explained is not None and finding.kind in _OTHER_ITEMS)
    if not looks_over or _is_cause(finding, starts):
        return current
    for slot, explanation in earlier:
        if _is_cause(explanation.finding, starts):
            return _mark_recalled(explanation, slot)
    if finding is None:
        for slot, explanation in earlier:
            weaker = explanation.finding
            if weaker is None or weaker.kind in _OF_TRAININGS:
                continue
            # Nothing but a fault gives users one list, however few they are.
            if weaker.share >= _CAUSE_USERS or weaker.kind is FaultKind.SHARED_LIST:
                return _mark_recalled(explanation, slot)
    return current


def _recall_order(
    current: Explanation, earlier: Iterable[tuple[datetime, Explanation]]
) -> Explanation:
    """Select the explanation in which the most users got other first items.

    Usually the first run with the fault has it, because later runs are compared with lists that
    have the fault too. The finding need not explain a drop, because the order of the first items
    hardly changes similarity.
    """
    selected = current
    most_users = _count_moved(current)
    for slot, explanation in earlier:
        users = _count_moved(explanation)
        if users > most_users:
            selected = _mark_recalled(explanation, slot)
            most_users = users
    return selected


def _count_moved(explanation: Explanation) -> int:
    finding = explanation.finding
    return finding.users if finding and finding.kind in _OF_FIRST_ITEMS else 0


def _mark_recalled(explanation: Explanation, slot: datetime) -> Explanation:
    if explanation.is_recalled:
        return explanation
    sentence = write_recalled(explanation.sentence, slot)
    return replace(explanation, sentence=sentence, is_recalled=True)


def _is_cause(finding: Finding | None, starts: Sequence[Transition]) -> bool:
    """Return whether the finding can be the cause of the alerts that begin."""
    if finding is None:
        return False
    if finding.kind in SIMILAR_FAULTS:
        return any(_is_about(start, OF_SIMILARITY) or _is_rise(start) for start in starts)
    if finding.explained is not None:
        return finding.explained >= _CAUSE_SHARE
    # Without a drop, ``explained`` is None. Then new items are no cause, because a training may
    # change lists more than usual.
    return finding.kind is not FaultKind.REPLACED and finding.share >= _CAUSE_USERS


def _is_about(start: Transition, lacks: tuple[Lack, ...]) -> bool:
    return start.kind is RuleKind.COVERAGE and start.statistic.startswith(lacks)


def _is_rise(start: Transition) -> bool:
    return start.kind is RuleKind.SIMILARITY and watches_rise(
        start.metric, start.statistic, start.direction
    )


def add_explanations(
    transitions: Iterable[Transition],
    explanation: Explanation | None,
    also: Sequence[str] = (),
    *,
    lost: Finding | None = None,
) -> tuple[Transition, ...]:
    """Add the explanation and ``also`` to the transitions with which alerts begin.

    Alerts on similarity always get the explanation. Other alerts get it if the finding says more
    than the alert's reason. ``lost`` is the finding about users without a list, which is used if
    the run has no explanation. ``also`` are further sentences.
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
    """Write the cause of this alert. None if there is neither an explanation nor a lost list."""
    is_explained = explanation is not None and change.kind is RuleKind.SIMILARITY
    if finding is not None and finding.kind is FaultKind.MISSING and not is_explained:
        return write_lost(finding)
    if explanation is None:
        return None
    return write_alert_text(explanation, parse_derived(change.metric)[1], change.segment)


def _adds_to(change: Transition, finding: Finding | None) -> bool:
    """Return whether the finding says more than the reason of this change."""
    if finding is None or change.is_about_test:
        return False
    if finding.kind is not FaultKind.MISSING or finding.segment != ALL or change.segment != ALL:
        return True
    # The reason of an alert on coverage already counts all users without a list, and the reason of
    # an alert on a failed run already names the cause.
    return change.kind is RuleKind.CONDITION and change.statistic != Condition.ERROR


@immutable
class _Names:
    """The ids of a run's users and items. Items that only earlier lists have are included."""

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
