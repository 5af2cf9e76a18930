"""Why a run's mean fell: one metric, each user's lists held against earlier ones, in ids and words instead of codes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
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
    write_distance,
    write_drop,
    write_finding,
    write_lost,
)
from monitor.metrics import Metric, Need, score_all
from monitor.model.alerts import State, Transition
from monitor.model.arrays import Rows
from monitor.model.comparison import Comparison
from monitor.model.explanation import ExampleLists, Explanation, FaultKind, Finding, Split
from monitor.model.id_mismatches import IdMismatch
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL, Arm, Coverage, CoverageReason, PairBatch, Pairing
from monitor.model.rules import Condition, RuleKind
from monitor.model.runs import RunStatus
from monitor.model.statistics import parse_derived
from monitor.pairing.ids import decode
from monitor.pipeline.accumulator import EXAMPLES, Sample
from monitor.pipeline.earlier_lists import RecodedLists
from monitor.pipeline.respelled import find_respelled
from monitor.pipeline.score import leading_metric

_MOST, _SOME = 0.5, 0.05
"""Share of a drop that a fault explains at least to be its cause.

Where there is no drop, share of users.
"""
_OTHERS_AGAIN = (FaultKind.MIXED_UP, FaultKind.NOISE, FaultKind.REPLACED)
_SINCE = "Since the run of"
Notes: TypeAlias = Mapping[tuple[Arm, CoverageReason], str]
"""What sources say about users without a list."""

HEALTHY_RUNS = 20  # newest ones that a run is held against
SHOWN_ITEMS = 10  # that gained, and that lost
# Most users shown of each kind of change; fewer where the comparison keeps the lists of fewer
SHOWN_EXAMPLES = 3
# Places of an example's lists whose items have titles: what is stored of a run grows with them
TITLED = 10


def can_split(metric: Metric) -> bool:
    """Whether distances by this metric come apart: identical lists have a value, and relevance is not needed."""
    return (
        metric.need is not Need.RELEVANCE
        and metric.identical is not None
        and not math.isnan(metric.identical)
    )


def split_metric(batch: PairBatch, metric: Metric) -> Parts:
    """The parts of each pair's distance by a metric that can be split. Costs six scorings of it."""
    return split_distances(batch, _scoring(metric))


def _scoring(metric: Metric) -> ScoreBatch:
    sign = 1.0 if metric.higher_is_more_alike else -1.0
    return lambda batch: sign * score_all(batch, (metric,))[str(metric)]


def choose_metric(comparison: Comparison, measured: Sequence[Metric]) -> Metric | None:
    """The metric to explain: that of the first rule on one that was measured and can be split, else the first such metric."""
    return leading_metric(comparison, [metric for metric in measured if can_split(metric)])


def explain_run(  # noqa: PLR0913 - the past is three of them
    comparison: Comparison,
    sample: Sample,
    measured: Sequence[Metric],
    past: Sequence[Split],
    *,
    former: RecodedLists | None = None,
    last: RecodedLists | None = None,
    mismatches: Sequence[IdMismatch] = (),
    notes: Notes = MappingProxyType({}),
) -> tuple[Split | None, Explanation | None]:
    """What the run keeps for later ones of one of the measured metrics, and its own explanation; neither without parts.

    ``past``: splits of earlier healthy runs; ``former``: lists of a healthy run before, against which each user's are held;
    ``last``: those of the last run; ``mismatches``: what is odd about this run's ids; ``notes``: why users got no list.
    Costs six scorings of the metric, and sixteen more where lists are held against others.
    """
    metric = choose_metric(comparison, measured)
    if metric is None:
        return None, None
    parts = split_metric(sample.pairing.batch, metric)
    means = average_parts(parts, sample.segments[ALL])
    if means is None:
        return None, None
    changes = _compare_metric(sample.pairing.batch, metric, former, last)
    drop = None if changes is None else decompose_drop(parts.total, changes, sample.segments)
    known = [each for each in past if each.metric == str(metric)]
    scene = Scene(
        batch=sample.pairing.batch,
        segments=sample.segments,
        coverage=sample.pairing.coverage.rows,
        changes=changes,
        is_older=former is not last,
        habits=_pool_habits(known),
        usually_missing=_share_missing(known),
        drop=drop.amount if drop is not None and drop.is_clear else None,
    )
    split = Split(
        metric=str(metric),
        asked=sample.pairing.coverage.all.asked,
        means=means,
        habits=_share_habits(scene),
    )
    names = _Names(pairing=sample.pairing, users=sample.scores.users, former=former)
    examples = min(SHOWN_EXAMPLES, comparison.measuring.evidence_users)
    finding, has_stood = _find_cause(
        scene, names, mismatches, shows_items=comparison.judging.shows_items
    )
    fault = _add_note(finding, sample.pairing.coverage, notes), has_stood
    explanation = _explain(split, parts, scene, drop, names, examples, fault=fault)
    return split, replace(explanation, id_mismatches=tuple(mismatches))


def find_lost(
    status: RunStatus, coverage: Coverage | None, notes: Notes = MappingProxyType({})
) -> Finding | None:
    """Users without a list in a run that could not be judged; None if nobody was asked."""
    if status is RunStatus.OK or coverage is None:
        return None
    return _add_note(find_missing(coverage.rows, None), coverage, notes)


def _share_missing(past: Sequence[Split]) -> float | None:
    """Usual share of the users without a score; None without earlier runs."""
    asked = sum(each.asked for each in past)
    return 1 - sum(each.means.n for each in past) / asked if asked else None


def _add_note(finding: Finding | None, coverage: Coverage, notes: Notes) -> Finding | None:
    """The finding with what the source says about most users without a list, if it says something."""
    if finding is None or finding.kind is not FaultKind.MISSING:
        return finding
    counts = {
        reason: count
        for (arm, reason), count in coverage.all.reasons.items()
        if arm is finding.arms[0]
    }
    said = [reason for reason in counts if (finding.arms[0], reason) in notes]
    if not said:
        return finding
    note = notes[finding.arms[0], max(said, key=counts.__getitem__)]
    return replace(finding, note=note.partition(EXAMPLES)[0])


def _find_cause(
    scene: Scene, names: _Names, mismatches: Sequence[IdMismatch], *, shows_items: bool
) -> tuple[Finding | None, bool | None]:
    """The fault, or the changed spelling of ids that looks like it.

    And whether the other arm stood still.
    """
    finding, has_stood = find_fault(scene) or (None, None)
    respelled = find_respelled(scene, finding, names.name_item, mismatches)
    if respelled is None:
        return finding, has_stood
    return respelled if shows_items else respelled.without_examples, has_stood if len(
        respelled.arms
    ) == 1 else None


def _compare_metric(
    batch: PairBatch, metric: Metric, former: RecodedLists | None, last: RecodedLists | None
) -> PairChanges | None:
    """How each pair's distance by a metric changed since earlier lists.

    None where there are none.
    """
    # What weights and scores the items had then is not known.
    if former is None or metric.need is not None:
        return None
    since = None if last is None or last is former else last.batch
    found = compare_pairs(batch, former.batch, _scoring(metric), last=since)
    return found if found.is_known.any() else None


def _explain(  # noqa: PLR0913 - all that is known of a run
    split: Split,
    parts: Parts,
    scene: Scene,
    drop: MeanDrop | None,
    names: _Names,
    examples: int,
    *,
    fault: tuple[Finding | None, bool | None],
) -> Explanation:
    finding, has_stood = fault
    leader = None if drop is None else drop.leader
    segment = finding.segment if finding is not None else ALL if leader is None else leader.segment
    rows = rows_of_place(segment, scene.segments)
    # Those of whom nobody has lists cannot be shown.
    rows = rows if len(rows) else scene.segments[ALL]
    if finding is not None:
        sentence = write_finding(finding, drop, has_stood=has_stood)
    else:
        sentence = write_distance(split.means) if drop is None else write_drop(drop)
    arm, before = _changed_arm(scene.changes, finding), None
    items = _compare_items(scene, rows, arm, names)
    if scene.changes is not None:
        before = share_kinds(
            classify(scene.changes.former.take(rows[scene.changes.is_known[rows]]))
        )
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
        paired=0 if scene.changes is None else int(scene.changes.is_known.sum()),
        arm=arm,
    )


def _changed_arm(changes: PairChanges | None, finding: Finding | None) -> Arm | None:
    """The arm that the finding names, else that which changed the distance more.

    None where no changes are known.
    """
    if changes is None:
        return None
    if finding is not None:
        return finding.arms[0]
    return max(reversed(Arm), key=lambda arm: abs(float(np.nansum(changes.by_arm[arm].total))))


def _compare_items(scene: Scene, rows: Rows, arm: Arm | None, names: _Names) -> ExposureShift:
    """Items of these users that gained and lost, from then to now in the arm that changed, else from arm to arm."""
    if arm is None or scene.changes is None:
        batch = scene.batch.take(rows)
        return compare_exposure(batch.baseline, batch.candidate, SHOWN_ITEMS, names.name_item)
    lists, known = scene.changes.lists[arm], rows[scene.changes.is_known[rows]]
    return compare_exposure(lists.former[known], lists.present[known], SHOWN_ITEMS, names.name_item)


def _share_habits(scene: Scene) -> dict[str, dict[str, tuple[float, ...]]]:
    """How much lists changed, for later runs."""
    # Over several runs lists change more than from one to the next.
    found = {} if scene.is_older else scene.bins
    return {
        str(arm): {str(habit): share_bins(bins) for habit, bins in of_arm.items()}
        for arm, of_arm in found.items()
    }


def _pool_habits(splits: Sequence[Split]) -> dict[str, dict[str, tuple[float, ...]]]:
    """Shares by arm, habit and bin, pooled over the runs that know them."""
    runs: dict[str, dict[str, list[Sequence[float]]]] = {}
    for split in splits:
        for arm, habits in split.habits.items():
            for habit, shares in habits.items():
                runs.setdefault(arm, {}).setdefault(habit, []).append(shares)
    return {
        arm: {habit: pool_bins(shares) for habit, shares in habits.items()}
        for arm, habits in runs.items()
    }


def explained_items(explanation: Explanation | None) -> frozenset[str]:
    """Ids of the items that the explanation names, and that its examples have in the places that messages show."""
    if explanation is None:
        return frozenset()
    lists = (
        items[:TITLED] for each in explanation.examples for items in (each.baseline, each.candidate)
    )
    return frozenset(each.item for each in (*explanation.gained, *explanation.lost)).union(*lists)


def add_titles(explanation: Explanation | None, titles: Mapping[str, str]) -> Explanation | None:
    """The explanation with the titles of the items that have one."""
    if explanation is None or not titles:
        return explanation
    gained, lost = (
        tuple(replace(each, title=titles.get(each.item)) for each in items)
        for items in (explanation.gained, explanation.lost)
    )
    return replace(explanation, gained=gained, lost=lost, titles=titles)


def recall_fault(
    own: Explanation | None, earlier: Iterable[tuple[datetime, Explanation]]
) -> Explanation | None:
    """What is told of a run in which alerts begin: its own explanation, or that of the run in which the fault came.

    An alert that comes late, as of a trend, finds no cause in what changed since the last run: then the newest of the
    ``earlier`` faults that explains most of a drop is told, or if there was none concerns enough users.
    """
    finding = None if own is None else own.finding
    is_others = (
        finding is not None and finding.explained is not None and finding.kind in _OTHERS_AGAIN
    )
    is_told = own is None or (finding is not None and not is_others) or _is_cause(finding)
    slot, found = next(
        ((slot, each) for slot, each in earlier if not is_told and _is_cause(each.finding)),
        (None, own),
    )
    if found is None or slot is None or found.sentence.startswith(_SINCE):
        return found
    return replace(found, sentence=f"{_SINCE} {format_instant(slot)}: {found.sentence}")


def _is_cause(finding: Finding | None) -> bool:
    if finding is None:
        return False
    if finding.explained is not None:
        return finding.explained >= _MOST
    # A training that changed lists more than usual made nothing fall then.
    return finding.kind is not FaultKind.REPLACED and finding.share >= _SOME


def add_explanations(
    transitions: Iterable[Transition],
    explanation: Explanation | None,
    also: Sequence[str] = (),
    *,
    lost: Finding | None = None,
) -> tuple[Transition, ...]:
    """The transitions with the explanation and ``also`` as text where an alert begins and its reason does not say it.

    An alert on similarity gets each explanation. All others get one that has a finding and adds something to their reason.
    ``lost``: users without a list, of a run that has no explanation.
    """
    finding = lost if explanation is None else explanation.finding
    explained = []
    for each in transitions:
        is_wanted = each.to_state is not State.QUIET and (
            _adds_to(each, finding) or each.kind is RuleKind.SIMILARITY
        )
        text = _write_cause(each, explanation, finding) if is_wanted else None
        explained.append(
            each if text is None else replace(each, explanation=" ".join((text, *also)))
        )
    return tuple(explained)


def _write_cause(
    change: Transition, explanation: Explanation | None, finding: Finding | None
) -> str | None:
    is_lost = finding is not None and finding.kind is FaultKind.MISSING
    if (
        finding is not None
        and is_lost
        and (explanation is None or change.kind is not RuleKind.SIMILARITY)
    ):
        return write_lost(finding)
    return (
        None
        if explanation is None
        else write_alert_text(explanation, parse_derived(change.metric)[1], change.segment)
    )


def _adds_to(change: Transition, finding: Finding | None) -> bool:
    """Whether the finding says more than the change's reason."""
    if finding is None:
        return False
    if finding.kind is not FaultKind.MISSING or finding.segment != ALL or change.segment != ALL:
        return True
    # Reasons of alerts on coverage count all users without a list, and a run that failed names its
    # cause.
    return change.kind is RuleKind.CONDITION and change.statistic != Condition.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """Users and items of the run by their ids, and what of their former lists is shown."""

    pairing: Pairing
    users: pd.Index[str]
    former: RecodedLists | None

    def name_item(self, code: int) -> str:
        vocabulary, former = self.pairing.vocabulary, self.former
        if former is not None and code >= former.first_unknown:
            return str(former.unknown[code - former.first_unknown])
        return str(code if vocabulary is None else vocabulary[code])

    def show_lists(self, row: int) -> ExampleLists:
        batch, vocabulary = self.pairing.batch, self.pairing.vocabulary
        baseline, candidate = (
            decode(codes[row], vocabulary) for codes in (batch.baseline, batch.candidate)
        )
        return ExampleLists(user=self.users[row], baseline=baseline, candidate=candidate)
