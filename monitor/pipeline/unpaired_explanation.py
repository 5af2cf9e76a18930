"""Explains how the lists of two arms differ, if each user is served by one arm only."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from monitor.measures.kernels.item_codes import compact_codes
from monitor.measures.metrics import Metric
from monitor.model.arrays import Codes, Hashes, Rows
from monitor.model.explanation import CLEAR_DROP, Explanation, FaultKind, Finding
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm, Coverage, PairBatch
from monitor.model.runs import Summary
from monitor.model.statistics import DerivedMetric
from monitor.model.unpaired import UnpairedResults
from monitor.pipeline.accumulator import Subset
from monitor.pipeline.run_explanation import SHOWN_ITEMS
from monitor.statistics.attribution.changes import OwnLists, PairChanges
from monitor.statistics.attribution.decomposition import compare_exposure
from monitor.statistics.attribution.faults import find_fault
from monitor.statistics.attribution.scene import Scene
from monitor.statistics.unpaired.arms_differed import compare_before
from monitor.statistics.unpaired.between import ListCounts, between_excess
from monitor.statistics.unpaired.exposure import find_moved_items
from monitor.texts.unpaired import write_unpaired

RBO_PERSISTENCE = 0.9
"""The parameter p of the RBO between users of different arms."""
KEPT = 0.5
"""The candidate is stale if at least this share of its users get the same list as before.

It is then the candidate's fault, although the baseline's lists changed more.
"""
MIN_ERRORS_ABOVE_ALL = 3.0
"""A segment is named if its self gap exceeds that of all users by this many standard errors."""


def name_divided_segment(arm: Arm, segment: str) -> str:
    """Return the name of a segment's users of one arm, inside a run."""
    return f"{arm} {segment}"


@immutable
class DividedSubset:
    """Users of both arms, with their pre-test and current lists."""

    subset: Subset  # its segments are divided by arm
    segments: tuple[str, ...]  # the undivided segments
    coverage: Coverage  # of the undivided segments

    def rows(self, arm: Arm, segment: str = ALL) -> Rows:
        """Return the rows of the segment's users of this arm."""
        return self.subset.segments[name_divided_segment(arm, segment)]

    def lists(self, rows: slice | Rows) -> OwnLists:
        """Return the pre-test and current lists of the users in these rows."""
        # A pair of ``subset`` has two lists of one user. The pre-test list is in the place of the
        # baseline's list, and the current list in the place of the candidate's list.
        return OwnLists.of_pairs(self.subset.pairing.batch.take(rows))

    def name_item(self, code: int) -> str:
        """Return the item's id."""
        vocabulary = self.subset.pairing.vocabulary
        return str(code if vocabulary is None else vocabulary[code])


def add_differences(
    results: UnpairedResults, users: DividedSubset, k: int, hashes: Hashes
) -> UnpairedResults:
    """Add how the lists of the arms differ. ``hashes`` has a random number for each user.

    ``between`` says for each segment how much less alike two users of different arms are than two
    users of the same arm.
    """
    lists = users.lists(slice(None))
    before, now, codes = compact_codes(lists.former, lists.present)
    excesses = []
    for segment in users.segments:
        segment_baseline = _count_lists(now[users.rows(Arm.BASELINE, segment)], k)
        segment_candidate = _count_lists(now[users.rows(Arm.CANDIDATE, segment)], k)
        excess = between_excess(segment_baseline, segment_candidate, RBO_PERSISTENCE, segment)
        if isfinite(excess.excess):
            excesses.append(excess)
    baseline = _count_lists(now[users.rows(Arm.BASELINE)], k)
    candidate = _count_lists(now[users.rows(Arm.CANDIDATE)], k)

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


def _count_lists(codes: Codes, k: int) -> ListCounts:
    counts = ListCounts(k)
    counts.add(codes)
    return counts


def explain_unpaired(
    users: DividedSubset,
    metric: Metric | None,
    summaries: Sequence[Summary],
    results: UnpairedResults,
) -> Explanation | None:
    """Say which arm's users moved farther from their pre-test lists, and what happened to them.

    The self gap says how much farther the candidate's users moved, see `DerivedMetric`. None if no
    user was compared or no metric was measured.
    """
    if metric is None:
        return None
    series = DerivedMetric.SELF_GAP.of(str(metric))
    # A gap is above 0 if the candidate's users moved farther.
    gaps = {gap.segment: gap for gap in summaries if gap.metric == series and gap.n}
    if ALL not in gaps:
        return None
    amounts = {segment: gap.mean or 0.0 for segment, gap in gaps.items()}
    error = gaps[ALL].standard_error or 0.0
    is_clear = abs(amounts[ALL]) >= CLEAR_DROP * error
    finding = _find_fault(users)
    if finding is not None:
        arm = finding.arms[0]
        segment = finding.segment
    else:
        arm = Arm.CANDIDATE if amounts[ALL] >= 0 else Arm.BASELINE
        segment = _main_segment(gaps)
    shift = compare_exposure(
        users.lists(users.rows(Arm.BASELINE, segment)).present,
        users.lists(users.rows(Arm.CANDIDATE, segment)).present,
        SHOWN_ITEMS,
        users.name_item,
    )
    return Explanation(
        metric=series,
        sentence=write_unpaired(finding, amounts, segment, results.excess, is_clear=is_clear),
        segment=segment,
        now=amounts[ALL],
        gained=shift.gained,
        lost=shift.lost,
        entered=shift.entered,
        left=shift.left,
        groups=(),
        finding=finding,
        arm=arm,
    )


def _main_segment(gaps: Mapping[str, Summary]) -> str:
    """Return the segment whose gap is most clearly larger than the gap of all users, or ``all``.

    Larger means farther from 0, on the same side as the gap of all users.
    """
    gap_of_all = gaps[ALL].mean or 0.0
    sign = -1.0 if gap_of_all < 0 else 1.0
    main_segment = ALL
    most_errors_above = MIN_ERRORS_ABOVE_ALL
    for segment, gap in gaps.items():
        if gap.standard_error:
            difference = sign * ((gap.mean or 0.0) - gap_of_all)
            errors_above = difference / gap.standard_error
            if errors_above > most_errors_above:
                main_segment = segment
                most_errors_above = errors_above
    return main_segment


def _find_fault(users: DividedSubset) -> Finding | None:
    """Find a fault of the candidate, or else a fault of the baseline.

    None if the lists of both arms changed equally much since before the test. The same number of
    users of each arm is compared. From the larger arm, they are drawn at random.
    """
    fewest = min(len(users.rows(arm)) for arm in Arm)
    if not fewest:
        return None
    # Seeded, so that the same lists have the same explanation.
    rng = np.random.default_rng(0)
    drawn = {}
    for arm in Arm:
        drawn[arm] = np.sort(rng.choice(users.rows(arm), fewest, replace=False))
    finding = _find_fault_of(Arm.CANDIDATE, users, drawn)
    if finding is not None:
        return finding
    finding = _find_fault_of(Arm.BASELINE, users, drawn)
    if finding is not None:
        return _find_unchanged_candidate(users) or finding
    return None


def _find_fault_of(arm: Arm, users: DividedSubset, drawn: Mapping[Arm, Rows]) -> Finding | None:
    """Find the fault of this arm in the users that were drawn from each arm.

    ``drawn`` has the rows of equally many users of each arm. The finding counts all users of the
    arm.
    """
    segments = {}
    for segment in users.segments:
        is_in_segment = np.isin(drawn[arm], users.rows(arm, segment))
        segments[segment] = np.flatnonzero(is_in_segment)
    fault = find_fault(_make_scene(users, drawn, segments))
    if fault is None or arm not in fault.finding.arms:
        return None
    compared = len(users.rows(arm))
    affected_users = round(fault.finding.users * compared / len(drawn[arm]))
    return replace(fault.finding, users=affected_users, compared=compared)


def _find_unchanged_candidate(users: DividedSubset) -> Finding | None:
    """Return a finding if most users of the candidate still get their pre-test lists.

    Healthy lists change a little, and lists that do not change are a fault of the candidate. But
    next to such lists, the healthy lists of the baseline seem to change too much. Therefore this
    finding replaces a fault of the baseline.
    """
    # There is at least one user, because `_find_fault` looks for faults only if both arms have
    # users.
    has_kept = users.lists(users.rows(Arm.CANDIDATE)).is_same
    kept_lists = int(has_kept.sum())
    if kept_lists < KEPT * len(has_kept):
        return None
    return Finding(
        kind=FaultKind.STALE,
        arms=(Arm.CANDIDATE,),
        segment=ALL,
        segment_share=kept_lists / len(has_kept),
        users=kept_lists,
        compared=len(has_kept),
        # The unchanged lists are those of before the test, and not those of the last run.
        detail={"of_before": 1.0},
    )


def _make_scene(
    users: DividedSubset, rows: Mapping[Arm, Rows], segments: Mapping[str, Rows]
) -> Scene:
    """Return a scene of the users in ``rows``. Each arm must have the same number of rows.

    A pair of the scene has one user of each arm. The first row of the baseline and the first row of
    the candidate are the first pair, and so on.
    """
    lists = {arm: users.lists(rows[arm]) for arm in Arm}
    baseline, candidate = lists[Arm.BASELINE], lists[Arm.CANDIDATE]
    former = PairBatch(
        baseline=baseline.former,
        candidate=candidate.former,
        baseline_lengths=baseline.former_lengths,
        candidate_lengths=candidate.former_lengths,
    )
    present = PairBatch(
        baseline=baseline.present,
        candidate=candidate.present,
        baseline_lengths=baseline.present_lengths,
        candidate_lengths=candidate.present_lengths,
    )
    return Scene(
        batch=present,
        segments=segments,
        coverage=users.coverage.rows,
        changes=PairChanges(
            former=former,
            is_known=np.ones(len(former), dtype=bool),
            lists=lists,
            by_arm={},
            is_unchanged={arm: of_arm.is_same for arm, of_arm in lists.items()},
        ),
    )
