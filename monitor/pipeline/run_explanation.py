"""Explains why a run's mean fell. Compares each user's lists with the user's earlier lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from monitor.measures.metrics import Metric, Need, score_all
from monitor.measures.pairing.ids import decode_row
from monitor.model.arrays import Floats, Rows
from monitor.model.explanation import (
    ExampleLists,
    Explanation,
    FaultKind,
    Finding,
    Histograms,
    MeanDrop,
    Split,
)
from monitor.model.immutable import immutable
from monitor.model.memory import Memory
from monitor.model.rankings import ALL, Arm, Coverage, Notes, PairBatch
from monitor.model.rules import Comparison
from monitor.model.run_reasons import IdMismatch
from monitor.pipeline.accumulator import Subset
from monitor.pipeline.earlier_lists import RecodedLists
from monitor.pipeline.id_spellings import find_respelled
from monitor.pipeline.score import leading_metric
from monitor.statistics.attribution.change_features import pool_bins, share_bins
from monitor.statistics.attribution.changes import (
    PairChanges,
    classify_changes,
    compare_pairs,
    group_users,
    share_kinds,
)
from monitor.statistics.attribution.decomposition import (
    ExposureShift,
    compare_exposure,
    decompose_drop,
    rows_of_segment,
)
from monitor.statistics.attribution.faults import Fault, find_fault
from monitor.statistics.attribution.parts import Parts, ScoreBatch, average_parts, split_distances
from monitor.statistics.attribution.scene import Scene
from monitor.texts.explanations import write_distance, write_drop, write_finding, write_unchanged

HEALTHY_RUNS = 20
"""A run is compared with at most this many of the newest healthy runs."""
SHOWN_ITEMS = 10
"""The largest number of items to name that users are shown more often. Items that users are shown
less often have the same limit."""
SHOWN_EXAMPLES = 3
"""For each kind of change, at most this many users are shown, and at most `evidence_users`."""


def can_split(metric: Metric) -> bool:
    """Return whether distances by this metric can be split into parts.

    The metric must have a value for identical lists, and it must not need relevance.
    """
    if metric.need is Need.RELEVANCE or metric.identical is None:
        return False
    return not math.isnan(metric.identical)


def split_metric(batch: PairBatch, metric: Metric, scores: Floats | None = None) -> Parts:
    """Split each pair's distance by the metric into parts.

    ``scores`` are the pairs' scores, if they are known. This takes two to six times as long as
    scoring the pairs.
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


def choose_metric(comparison: Comparison, measured_metrics: Sequence[Metric]) -> Metric | None:
    """Return the metric by which a run is explained.

    It is the metric of the first rule whose metric can be split. If there is no such rule, it is
    the first metric that can be split. None if no metric can be split.
    """
    return leading_metric(comparison, [metric for metric in measured_metrics if can_split(metric)])


def explain_run(  # noqa: PLR0913 - the inputs of one explanation
    comparison: Comparison,
    subset: Subset,
    measured_metrics: Sequence[Metric],
    memory: Memory,
    *,
    former: RecodedLists | None,
    last: RecodedLists | None,
    mismatches: Sequence[IdMismatch],
    notes: Notes,
) -> tuple[Split | None, Explanation | None]:
    """Explain a run by one of the measured metrics.

    Returns the split distances, which later runs use, and the explanation. Both are None if no
    metric can be split. Raises MetricError if a plugin's metric fails.

    - ``last`` are the lists of the last run.
    - ``former`` are the lists of the last run before the current alerts began. This run's lists are
      compared with them. Without alerts, ``former`` and ``last`` are the same object.
    - ``mismatches`` say how ids of this run do not match.
    - ``notes`` say why users got no list.

    This takes as long as scoring the pairs two to five times. With ``former``, it takes as long as
    scoring the pairs another sixteen times.
    """
    metric = choose_metric(comparison, measured_metrics)
    if metric is None:
        return None, None
    pairing = subset.pairing
    scores = subset.scores.by_metric[str(metric)]
    parts = split_metric(pairing.batch, metric, scores)
    means = average_parts(parts, subset.segments[ALL])
    if means is None:
        return None, None
    changes = _compare_metric(pairing.batch, metric, former, last)
    drop = None
    if changes is not None:
        drop = decompose_drop(parts.total, changes, subset.segments)
    past = [split for split in memory.splits if split.metric == str(metric)]
    scene = Scene(
        batch=pairing.batch,
        segments=subset.segments,
        coverage=subset.coverage.rows,
        changes=changes,
        # If they are not the same object, ``former`` are lists of a run before the last run.
        has_runs_between=former is not last,
        usual_histograms=average_histograms(past),
        usually_missing=_share_missing(past),
        drop=drop.amount if drop is not None and drop.is_clear else None,
        is_rise=drop is not None and drop.is_rise,
    )
    split = Split(
        metric=str(metric),
        asked=subset.coverage.all.asked,
        means=means,
        histograms=make_histograms(scene),
    )
    names = Names(subset=subset, former=former)
    examples = min(SHOWN_EXAMPLES, comparison.measuring.evidence_users)
    fault = _find_fault(scene, names, mismatches, shows_items=comparison.judging.shows_items)
    if fault is not None:
        fault = replace(fault, finding=_add_note(fault.finding, subset.coverage, notes))
    explanation = _make_explanation(split, parts, scene, drop, names, examples, fault=fault)
    return split, replace(
        explanation,
        id_mismatches=tuple(mismatches),
        # Without paired users the run is not compared with the earlier run.
        since=memory.former_slot if explanation.paired else None,
    )


def _share_missing(past: Sequence[Split]) -> float | None:
    """Return the usual share of users without a score, or None without earlier runs."""
    users = sum(split.asked for split in past)
    if not users:
        return None
    return 1 - sum(split.means.n for split in past) / users


def _add_note(finding: Finding, coverage: Coverage, notes: Notes) -> Finding:
    """Add a source's note to a finding about users without a list. Other findings stay as they are.

    If there are several notes, the note about the largest number of users is added.
    """
    if finding.kind is not FaultKind.MISSING:
        return finding
    most_users = 0
    text = None
    for (arm, reason), users in coverage.all.users_by_reason.items():
        note = notes.get((arm, reason))
        if arm is finding.arms[0] and note is not None and users > most_users:
            most_users = users
            text = note.text
    return replace(finding, note=text)


def _find_fault(
    scene: Scene,
    names: Names,
    mismatches: Sequence[IdMismatch],
    *,
    shows_items: bool,
) -> Fault | None:
    """Find the fault of the run, or None. If ids are spelled differently, this is the fault.

    Without ``shows_items``, the result has no examples of ids.
    """
    fault = find_fault(scene)
    finding = None if fault is None else fault.finding
    respelled = find_respelled(scene, finding, names.name_item, mismatches)
    if respelled is None:
        return fault
    # `find_respelled` tests only the arms of the fault. So if one arm is respelled, both have the
    # same other arm, and the fault says whether this arm is unchanged.
    is_other_unchanged = None
    if fault is not None and len(respelled.arms) == 1:
        is_other_unchanged = fault.is_other_unchanged
    if not shows_items:
        respelled = respelled.without_examples
    return Fault(finding=respelled, is_other_unchanged=is_other_unchanged)


def _compare_metric(
    batch: PairBatch,
    metric: Metric,
    former: RecodedLists | None,
    last: RecodedLists | None,
) -> PairChanges | None:
    """Measure how each pair's distance changed since the earlier run with the ``former`` lists.

    If the ``last`` run is another run, lists that did not change since the last run are also found.

    None if there are no earlier lists, or if no user of this run has earlier lists of both arms.
    None too if the metric needs item weights or scores, because runs do not store these.
    """
    if former is None or metric.need is not None:
        return None
    last_batch = None
    if last is not None and last is not former:
        last_batch = last.batch
    changes = compare_pairs(batch, former.batch, _similarity_by(metric), last=last_batch)
    if not changes.is_known.any():
        return None
    return changes


def _make_explanation(  # noqa: PLR0913 - what was computed of a run
    split: Split,
    parts: Parts,
    scene: Scene,
    drop: MeanDrop | None,
    names: Names,
    examples: int,
    *,
    fault: Fault | None,
) -> Explanation:
    """Make the explanation of a run from its fault, else from its drop, else from its distance."""
    finding = None
    segment = ALL
    if fault is not None:
        finding = fault.finding
        segment = finding.segment
        sentence = write_finding(
            finding, drop, also=fault.also, is_other_unchanged=fault.is_other_unchanged
        )
    elif drop is not None:
        if drop.main_segment is not None:
            segment = drop.main_segment.segment
        sentence = write_drop(drop)
        if scene.are_lists_unchanged and not (drop.is_clear or drop.is_rise):
            sentence = write_unchanged()
    else:
        sentence = write_distance(split.means)
    rows = rows_of_segment(segment, scene.segments)
    if not len(rows):
        # No user of the segment has lists to show, so lists of all users are shown.
        rows = scene.segments[ALL]
    changes = scene.changes
    arm = _changed_arm(changes, finding)
    exposure_shift = _compare_items(scene, rows, arm, names)
    shares_before = None
    paired = 0
    if changes is not None:
        rows_before = rows[changes.is_known[rows]]
        shares_before = share_kinds(classify_changes(changes.former.take(rows_before)))
        paired = int(changes.is_known.sum())
    groups = group_users(
        classify_changes(scene.batch),
        parts,
        rows,
        before=shares_before,
        show=names.show_lists,
        examples=examples,
        affected=None if fault is None else fault.affected,
    )
    explanation = Explanation(
        metric=split.metric,
        sentence=sentence,
        segment=segment,
        now=split.means.total,
        # ``gained`` and ``lost`` are the items that are shown more, and those that are shown less.
        # ``entered`` and ``left`` count the items that were in no list before, or are in none now.
        gained=exposure_shift.gained,
        lost=exposure_shift.lost,
        entered=exposure_shift.entered,
        left=exposure_shift.left,
        groups=groups,
        finding=finding,
        also=None if fault is None else fault.also,
        paired=paired,
        arm=arm,
    )
    if drop is None:
        return explanation
    return replace(explanation, before=drop.before, causes=drop.causes, falls=drop.falls)


def _changed_arm(changes: PairChanges | None, finding: Finding | None) -> Arm | None:
    """Return the arm that changed, so that its lists are compared with its earlier lists.

    This is the first arm of the finding. Without a finding, it is the arm that changed the distance
    more. None without earlier lists.
    """
    if changes is None:
        return None
    if finding is not None:
        return finding.arms[0]
    amounts = {arm: abs(float(np.nansum(changes.by_arm[arm].total))) for arm in Arm}
    if amounts[Arm.BASELINE] > amounts[Arm.CANDIDATE]:
        return Arm.BASELINE
    return Arm.CANDIDATE


def _compare_items(
    scene: Scene,
    rows: Rows,
    arm: Arm | None,
    names: Names,
) -> ExposureShift:
    """Find the items that these users are shown more, and the items that they are shown less.

    The changed arm is compared with its earlier lists. If there are none, or if no arm is known to
    have changed, the candidate is compared with the baseline.
    """
    if arm is None or scene.changes is None:
        batch = scene.batch.take(rows)
        return compare_exposure(batch.baseline, batch.candidate, SHOWN_ITEMS, names.name_item)
    lists = scene.changes.lists[arm]
    rows = rows[scene.changes.is_known[rows]]
    return compare_exposure(lists.former[rows], lists.present[rows], SHOWN_ITEMS, names.name_item)


def make_histograms(scene: Scene) -> Histograms:
    """Return how much lists changed since the last run, as shares of users by arm, feature and bin.

    Later runs learn from these shares how much lists usually change.
    """
    if scene.has_runs_between:
        # These lists are of an older run, and lists change more over several runs than over one.
        return {}
    shares = {}
    for arm, features in scene.bins.items():
        shares[str(arm)] = {str(feature): share_bins(bins) for feature, bins in features.items()}
    return shares


def average_histograms(splits: Sequence[Split]) -> Histograms:
    """Return the means of the shares of `make_histograms` over the runs that stored shares."""
    shares_of_runs: dict[tuple[str, str], list[Sequence[float]]] = {}
    for split in splits:
        for arm, features in split.histograms.items():
            for feature, shares in features.items():
                shares_of_runs.setdefault((arm, feature), []).append(shares)
    means: dict[str, dict[str, tuple[float, ...]]] = {}
    for (arm, feature), runs in shares_of_runs.items():
        means.setdefault(arm, {})[feature] = pool_bins(runs)
    return means


def mention_subset(explanation: Explanation | None, seen: int, asked: int) -> Explanation | None:
    """Say in the explanation that only a subset of the asked users was seen, if it was."""
    if explanation is None or seen == asked:
        return explanation
    sentence = f"{explanation.sentence} (seen in a sample of {seen:,} of {asked:,} users)"
    return replace(explanation, sentence=sentence)


@immutable
class Names:
    """The ids of a run's users and items. Items that only earlier lists have are included."""

    subset: Subset
    former: RecodedLists | None

    def name_item(self, code: int) -> str:
        """Return the item's id."""
        vocabulary = self.subset.pairing.vocabulary
        former = self.former
        if former is not None and code >= former.first_new_code:
            return str(former.new_code_ids[code - former.first_new_code])
        return str(code if vocabulary is None else vocabulary[code])

    def show_lists(self, row: int) -> ExampleLists:
        """Return both lists of the user in this row."""
        pairing = self.subset.pairing
        return ExampleLists(
            user=self.subset.scores.users[row],
            baseline=decode_row(pairing.batch.baseline[row], pairing.vocabulary),
            candidate=decode_row(pairing.batch.candidate[row], pairing.vocabulary),
        )
