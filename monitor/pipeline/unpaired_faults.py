"""Finds the fault of a run in which each user is served by one arm only."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from monitor.model.arrays import Codes, Flags, Rows
from monitor.model.explanation import FaultKind, Finding, Histograms
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm, PairBatch
from monitor.pipeline.divided_subset import DividedSubset
from monitor.pipeline.earlier_lists import RecodedLists
from monitor.pipeline.id_spellings import find_respelled
from monitor.pipeline.run_explanation import Names
from monitor.statistics.attribution.changes import OwnLists, PairChanges, pair_runs
from monitor.statistics.attribution.decomposition import find_affected_segment, rows_of_segment
from monitor.statistics.attribution.faults import Fault, find_fault
from monitor.statistics.attribution.scene import LEAST_AFFECTED_USERS, Scene

PRE_TEST_SHARE = 0.5
"""If at least this share of the candidate's users get their pre-test list, this is the fault.

It is then the candidate's fault, although the baseline's lists changed more.
"""
TIMES_KEPT = 3
"""If fewer users of the candidate get their pre-test list, their share must be this many times as
large as the baseline's."""


@immutable
class UnpairedPast:
    """The lists of earlier runs, and how much the lists of each arm usually change.

    ``former`` are the lists of an earlier healthy run, and ``last`` those of the last run.
    """

    former: RecodedLists | None
    last: RecodedLists | None
    usual_histograms: Histograms


def make_scene_since_run(users: DividedSubset, past: UnpairedPast) -> Scene | None:
    """Return a scene with the lists of an earlier run and of this run.

    None if too few users have both, so that an arm has none.
    """
    former = past.former
    if former is None:
        return None
    has_former = former.batch.candidate_lengths > 0
    former_lists = former.batch.candidate, former.batch.candidate_lengths
    last_lists = None
    if past.last is not None and past.last is not former:
        last_lists = past.last.batch.candidate, past.last.batch.candidate_lengths
    scene = _make_scene(users, has_former, former_lists, last_lists)
    if scene is None:
        return None
    return replace(
        scene, has_runs_between=last_lists is not None, usual_histograms=past.usual_histograms
    )


def find_fault_since_run(
    users: DividedSubset, past: UnpairedPast, scene: Scene, *, shows_items: bool
) -> Fault | None:
    """Find the fault of one arm or of both arms since an earlier run, if there is one.

    ``scene`` has the lists of the earlier run.
    """
    fault = find_fault(scene)
    finding = None if fault is None else fault.finding
    names = Names(subset=users.subset, former=past.former)
    respelled = find_respelled(scene, finding, names.name_item, ())
    if respelled is not None:
        fault = Fault(finding=respelled if shows_items else respelled.without_examples)
    return None if fault is None else _count_all(fault, users, scene)


def find_fault_since_test(users: DividedSubset) -> Fault | None:
    """Find a fault of one arm since before the test.

    None if the lists of both arms changed equally much, or if another model explains the change,
    because the candidate is usually another model than the one before the test.
    """
    pre_test_lists = find_pre_test_lists(users)
    # Compared with so many unchanged lists, the baseline's lists seem to change too much.
    if pre_test_lists is not None and pre_test_lists.share >= PRE_TEST_SHARE:
        return Fault(finding=pre_test_lists)
    batch = users.subset.pairing.batch
    is_known = batch.baseline_lengths > 0
    scene = _make_scene(users, is_known, (batch.baseline, batch.baseline_lengths), None)
    fault = None if scene is None else find_fault(scene)
    if scene is not None and fault is not None and not fault.finding.kind.facts.is_model_change:
        return _count_all(fault, users, scene)
    return None if pre_test_lists is None else Fault(finding=pre_test_lists)


def find_pre_test_lists(users: DividedSubset, former: RecodedLists | None = None) -> Finding | None:
    """Find users of the candidate that get their pre-test list.

    None if not far more users of the candidate than of the baseline get it. With lists of an
    earlier run (``former``), only users count that got another list then.
    """
    pre_test = users.subset.pairing.batch
    has_pre_test_list = OwnLists.of_pairs(pre_test).is_same
    if former is not None:
        lists = former.batch.candidate
        lengths = former.batch.candidate_lengths
        then = replace(pre_test, candidate=lists, candidate_lengths=lengths)
        has_pre_test_list = has_pre_test_list & (lengths > 0) & ~OwnLists.of_pairs(then).is_same
    candidate = users.rows(Arm.CANDIDATE)
    baseline = users.rows(Arm.BASELINE)
    if not len(baseline):
        return None
    affected = has_pre_test_list[candidate]
    count = int(affected.sum())
    usual_share = float(has_pre_test_list[baseline].mean())
    if count < LEAST_AFFECTED_USERS + TIMES_KEPT * usual_share * len(candidate):
        return None
    segments = {}
    for name in users.segments:
        is_inside = np.isin(candidate, users.rows(Arm.CANDIDATE, name))
        segments[name] = np.flatnonzero(is_inside)
    segment = find_affected_segment(affected, usual_share, segments)
    affected_inside = affected[rows_of_segment(segment, segments)]
    return Finding(
        kind=FaultKind.UNCHANGED,
        arms=(Arm.CANDIDATE,),
        segment=segment,
        segment_share=float(affected_inside.mean()),
        users=count,
        compared=len(candidate),
        detail={"of_before": 1.0},
        is_exact=bool(affected_inside.all()) and len(affected_inside) == count,
    )


def _count_all(fault: Fault, users: DividedSubset, scene: Scene) -> Fault:
    """Return the findings about the users in a scene as findings about all users of their arms.

    If the affected users may all be in the finding's segment, they are counted from it. It may be a
    larger part of an arm than of the scene, which has equally many users of each arm.
    """

    def count(finding: Finding) -> Finding:
        segment = finding.segment
        if finding.users > len(rows_of_segment(segment, scene.segments)):
            segment = ALL
        in_segment = 0
        for arm in finding.arms:
            segments = {name: users.rows(arm, name) for name in users.segments}
            in_segment += len(rows_of_segment(segment, segments))
        affected_share = finding.users / len(rows_of_segment(segment, scene.segments))
        return replace(
            finding,
            users=round(affected_share * in_segment),
            compared=sum(len(users.rows(arm)) for arm in finding.arms),
        )

    also = None if fault.also is None else count(fault.also)
    return replace(fault, finding=count(fault.finding), also=also)


def _make_scene(
    users: DividedSubset,
    is_known: Flags,
    former: tuple[Codes, Codes],
    last: tuple[Codes, Codes] | None,
) -> Scene | None:
    """Return a scene of the known users, equally many of each arm. None if an arm has none.

    ``former`` and ``last`` have the codes and lengths of earlier lists of all users.

    A pair of the scene has one user of each arm. Both users are in the same segments. So a segment
    has the same rows for both arms.
    """
    rows = _match_users(users, is_known)
    if not len(rows[Arm.CANDIDATE]):
        return None
    batch = users.subset.pairing.batch
    present_pairs = _join_arms(batch.of(Arm.CANDIDATE), rows)
    former_pairs = _join_arms(former, rows)
    lists = pair_runs(former_pairs, present_pairs)
    is_unchanged = {arm: of_arm.is_same for arm, of_arm in lists.items()}
    if last is not None:
        since_last: Mapping[Arm, OwnLists] = pair_runs(_join_arms(last, rows), present_pairs)
        for arm, of_arm in since_last.items():
            is_unchanged[arm] = is_unchanged[arm] | of_arm.is_same
    segments = {}
    for segment in users.segments:
        is_inside = np.isin(rows[Arm.CANDIDATE], users.rows(Arm.CANDIDATE, segment))
        segments[segment] = np.flatnonzero(is_inside)
    return Scene(
        batch=present_pairs,
        is_paired=False,
        segments=segments,
        coverage=users.coverage.rows,
        changes=PairChanges(
            former=former_pairs,
            is_known=np.ones(len(present_pairs), dtype=bool),
            lists=lists,
            by_arm={},
            is_unchanged=is_unchanged,
        ),
    )


def _match_users(users: DividedSubset, is_known: Flags) -> dict[Arm, Rows]:
    """Return rows of known users: for each user of one arm, one of the other arm.

    Both are in the same segments. They are drawn at random, but seeded, so that the same lists have
    the same explanation.
    """
    is_inside = np.zeros((len(is_known), len(users.segments)), dtype=bool)
    for place, segment in enumerate(users.segments):
        for arm in Arm:
            is_inside[users.rows(arm, segment), place] = True
    # Users in the same segments have the same group.
    _, group = np.unique(is_inside, axis=0, return_inverse=True)
    group = group.ravel()
    rng = np.random.default_rng(0)
    rows = {}
    users_of_group = {}
    for arm in Arm:
        of_arm = users.rows(arm)
        shuffled = rng.permutation(of_arm[is_known[of_arm]])
        rows[arm] = shuffled[np.argsort(group[shuffled], kind="stable")]
        users_of_group[arm] = np.bincount(group[rows[arm]], minlength=group.max(initial=-1) + 1)
    fewest = np.minimum(users_of_group[Arm.BASELINE], users_of_group[Arm.CANDIDATE])
    for arm, count in users_of_group.items():
        first_of_group = np.repeat(np.cumsum(count) - count, count)
        number_in_group = np.arange(len(rows[arm])) - first_of_group
        rows[arm] = rows[arm][number_in_group < fewest[group[rows[arm]]]]
    return rows


def _join_arms(lists: tuple[Codes, Codes], rows: Mapping[Arm, Rows]) -> PairBatch:
    """Return pairs of a baseline's user and a candidate's user. ``lists`` are codes and lengths."""
    codes, lengths = lists
    baseline, candidate = rows[Arm.BASELINE], rows[Arm.CANDIDATE]
    return PairBatch(
        baseline=codes[baseline],
        candidate=codes[candidate],
        baseline_lengths=lengths[baseline],
        candidate_lengths=lengths[candidate],
    )
