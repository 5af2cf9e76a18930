"""Explains how the lists of two arms differ, if each user is served by one arm only."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import isfinite

import numpy as np

from monitor.measures.kernels.item_codes import compact_codes
from monitor.measures.metrics import Metric
from monitor.model.arrays import Hashes
from monitor.model.explanation import CLEAR_DROP, Explanation, Finding, Split
from monitor.model.memory import Memory
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import Comparison
from monitor.model.runs import Summary
from monitor.model.statistics import DerivedMetric
from monitor.model.unpaired import UnpairedResults
from monitor.pipeline.divided_subset import DividedSubset
from monitor.pipeline.earlier_lists import RecodedLists
from monitor.pipeline.run_explanation import (
    SHOWN_ITEMS,
    Names,
    average_histograms,
    can_split,
    make_histograms,
    split_metric,
)
from monitor.pipeline.unpaired_faults import (
    UnpairedPast,
    find_fault_since_run,
    find_fault_since_test,
    find_pre_test_lists,
    make_scene_since_run,
)
from monitor.statistics.attribution.decomposition import compare_exposure
from monitor.statistics.attribution.faults import Fault
from monitor.statistics.attribution.parts import average_parts
from monitor.statistics.attribution.scene import Scene
from monitor.statistics.unpaired.arms_differed import compare_before
from monitor.statistics.unpaired.between import between_excess, count_lists
from monitor.statistics.unpaired.exposure import find_moved_items
from monitor.texts.explanations import join_sentences, write_unchanged
from monitor.texts.unpaired import write_unpaired

RBO_PERSISTENCE = 0.9
"""The parameter p of the RBO between users of different arms."""
MIN_ERRORS_ABOVE_ALL = 3.0
"""A segment is named if its self gap exceeds that of all users by this many standard errors."""

LEAST_USERS_OF_ARM = 30
"""A segment is named if each arm has this many users in it. Standard errors of fewer are unreliable."""


def add_differences(
    results: UnpairedResults, users: DividedSubset, hashes: Hashes
) -> UnpairedResults:
    """Add how the lists of the arms differ. ``hashes`` has a random number for each user.

    ``between`` says for each segment how much less alike two users of different arms are than two
    users of the same arm.
    """
    lists = users.lists(slice(None))
    before, now, codes = compact_codes(lists.former, lists.present)
    excesses = []
    for segment in users.segments:
        segment_baseline = count_lists(now[users.rows(Arm.BASELINE, segment)], len(codes))
        segment_candidate = count_lists(now[users.rows(Arm.CANDIDATE, segment)], len(codes))
        excess = between_excess(segment_baseline, segment_candidate, RBO_PERSISTENCE, segment)
        if isfinite(excess.excess):
            excesses.append(excess)
    baseline = count_lists(now[users.rows(Arm.BASELINE)], len(codes))
    candidate = count_lists(now[users.rows(Arm.CANDIDATE)], len(codes))

    def name_item(compact_code: int) -> str:
        return users.name_item(int(codes[compact_code]))

    is_candidate = np.zeros(len(now), dtype=bool)
    is_candidate[users.rows(Arm.CANDIDATE)] = True
    return replace(
        results,
        between=tuple(excesses),
        items=find_moved_items(baseline, candidate, name_item),
        counted={Arm.BASELINE: baseline.users, Arm.CANDIDATE: candidate.users},
        # The p-value of a test whether the arms already differed before the test began. It permutes
        # the users in the order of the hashes.
        before_p=compare_before(before, is_candidate, hashes),
    )


def explain_unpaired(  # noqa: PLR0913 - what is known of a run
    comparison: Comparison,
    users: DividedSubset,
    metric: Metric | None,
    summaries: Sequence[Summary],
    results: UnpairedResults,
    memory: Memory,
    *,
    former: RecodedLists | None,
    last: RecodedLists | None,
) -> tuple[Split | None, Explanation | None]:
    """Say which arm's users moved farther from their pre-test lists, and what happened to them.

    Returns what later runs use, and the explanation. The self gap says how much farther the
    candidate's users moved, see `DerivedMetric`. Both are None if no user was compared or no metric
    was measured.

    A fault is searched in the changes since an earlier run (``former``). If there is none, it is
    searched in the changes since before the test. ``last`` are the lists of the last run.
    """
    if metric is None:
        return None, None
    series = DerivedMetric.SELF_GAP.of(str(metric))
    # A gap is above 0 if the candidate's users moved farther.
    gaps = {gap.segment: gap for gap in summaries if gap.metric == series and gap.n}
    if ALL not in gaps:
        return None, None
    past = UnpairedPast(
        former=former,
        last=last,
        usual_histograms=average_histograms(
            [split for split in memory.splits if split.metric == str(metric)]
        ),
    )
    scene = make_scene_since_run(users, past)
    fault_since_run = None
    if scene is not None:
        shows_items = comparison.judging.shows_items
        fault_since_run = find_fault_since_run(users, past, scene, shows_items=shows_items)
    fault = fault_since_run
    pre_test_lists = find_pre_test_lists(users, former)
    if pre_test_lists is not None and _is_better(pre_test_lists, fault):
        fault = Fault(finding=pre_test_lists)
    elif fault is None:
        fault = find_fault_since_test(users)
    explanation = _make_explanation(series, gaps, fault, users, results)
    since = memory.former_slot
    if fault is not None and fault is fault_since_run and since and former:
        explanation = _compare_with_run(explanation, fault.finding, users, former, since)
    elif scene is not None and scene.are_lists_unchanged:
        sentences = (write_unchanged(since), explanation.sentence)
        explanation = replace(explanation, sentence=join_sentences(sentences))
    return _make_split(users, metric, scene), explanation


def _is_better(pre_test_lists: Finding, fault: Fault | None) -> bool:
    """Return whether pre-test lists explain more than the fault since an earlier run.

    Pre-test lists have many new items too, if they are compared with that run.
    """
    if fault is None or "is_general" in fault.finding.detail:
        return True
    finding = fault.finding
    return finding.kind.facts.looks_like_training and pre_test_lists.users >= finding.users


def _make_explanation(
    series: str,
    gaps: Mapping[str, Summary],
    fault: Fault | None,
    users: DividedSubset,
    results: UnpairedResults,
) -> Explanation:
    """Make the explanation from the fault, or else from the self gap of all users."""
    finding = None if fault is None else fault.finding
    also = None if fault is None else fault.also
    amounts = {segment: gap.mean or 0.0 for segment, gap in gaps.items()}
    error = gaps[ALL].standard_error or 0.0
    is_clear = abs(amounts[ALL]) >= CLEAR_DROP * error
    if finding is not None:
        arm = finding.arms[0]
        segment = finding.segment
    else:
        arm = Arm.CANDIDATE if amounts[ALL] >= 0 else Arm.BASELINE
        segment = _main_segment(gaps, users)
    shift = compare_exposure(
        users.lists(users.rows(Arm.BASELINE, segment)).present,
        users.lists(users.rows(Arm.CANDIDATE, segment)).present,
        SHOWN_ITEMS,
        users.name_item,
    )
    return Explanation(
        metric=series,
        sentence=write_unpaired(
            finding, amounts, segment, results.excess, also=also, is_clear=is_clear
        ),
        segment=segment,
        now=amounts[ALL],
        gained=shift.gained,
        lost=shift.lost,
        entered=shift.entered,
        left=shift.left,
        groups=(),
        finding=finding,
        also=also,
        arm=arm,
    )


def _compare_with_run(
    explanation: Explanation,
    finding: Finding,
    users: DividedSubset,
    former: RecodedLists,
    since: datetime,
) -> Explanation:
    """Return the explanation with the items of the finding's first arm in an earlier run and now."""
    rows = users.rows(finding.arms[0], finding.segment)
    rows = rows[former.batch.candidate_lengths[rows] > 0]
    shift = compare_exposure(
        former.batch.candidate[rows],
        users.subset.pairing.batch.candidate[rows],
        SHOWN_ITEMS,
        Names(subset=users.subset, former=former).name_item,
    )
    return replace(
        explanation,
        gained=shift.gained,
        lost=shift.lost,
        entered=shift.entered,
        left=shift.left,
        since=since,
    )


def _make_split(users: DividedSubset, metric: Metric, scene: Scene | None) -> Split | None:
    """Return how much lists changed since the last run, from which later runs learn.

    None if this is unknown, or if the metric cannot be split.
    """
    if scene is None or not can_split(metric):
        return None
    subset = users.subset
    scores = subset.scores.by_metric[str(metric)]
    means = average_parts(split_metric(subset.pairing.batch, metric, scores), subset.segments[ALL])
    if means is None:
        return None
    return Split(
        metric=str(metric),
        asked=subset.coverage.all.asked,
        means=means,
        histograms=make_histograms(scene),
    )


def _main_segment(gaps: Mapping[str, Summary], users: DividedSubset) -> str:
    """Return the segment whose gap is most clearly larger than the gap of all users, or ``all``.

    Larger means farther from 0, on the same side as the gap of all users. Segments with few users
    are left out.
    """
    gap_of_all = gaps[ALL].mean or 0.0
    sign = -1.0 if gap_of_all < 0 else 1.0
    main_segment = ALL
    most_errors_above = MIN_ERRORS_ABOVE_ALL
    for segment, gap in gaps.items():
        fewest_users = min(len(users.rows(arm, segment)) for arm in Arm)
        if gap.standard_error and fewest_users >= LEAST_USERS_OF_ARM:
            difference = sign * ((gap.mean or 0.0) - gap_of_all)
            errors_above = difference / gap.standard_error
            if errors_above > most_errors_above:
                main_segment = segment
                most_errors_above = errors_above
    return main_segment
