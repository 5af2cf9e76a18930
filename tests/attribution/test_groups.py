import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from kernels import reference
from monitor.attribution import CHANGES, Parts, classify, find_medoids, group_users, pool_kinds, share_kinds
from monitor.model import Change


def parts(rows: list[tuple[float, float, float]]) -> Parts:
    membership, order, length = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return Parts(membership=membership, order=order, length=length)


@pytest.mark.parametrize(
    ("baseline", "candidate", "change"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], Change.UNCHANGED),
        ([1, 2, 3, 4], [2, 1, 3, 4], Change.REORDERED),
        ([1, 2, 3, 4], [1, 2, 9, 8], Change.PARTLY_REPLACED),
        ([1, 2, 3, 4], [1, 7, 9, 8], Change.MOSTLY_REPLACED),
        ([1, 2, 3, 4], [6, 7, 9, 8], Change.REPLACED),
        ([1, 2, 3, 4], [1, 2], Change.CUT_SHORT),
        ([1, 2, 3, 4], [1, 9], Change.CUT_SHORT),
        ([1, 2, 3, 4], [8, 9], Change.REPLACED),
        ([1, 2], [1, 2, 3, 4], Change.LENGTHENED),
        ([1, 2], [], Change.REPLACED),
        ([], [1, 2], Change.REPLACED),
        ([], [], Change.UNCHANGED),
    ],
)
def test_a_pair_is_of_the_kind_that_a_person_would_say(baseline: list[int], candidate: list[int], change: Change) -> None:
    assert CHANGES[classify(reference.batch([(baseline, candidate)], 6))[0]] is change


def test_a_list_in_a_wider_batch_is_of_the_same_kind() -> None:
    found = classify(reference.batch([([1, 2], [2, 1]), ([1, 2, 3], [1, 2, 3]), ([1], [2])]))
    assert [CHANGES[place] for place in found] == [Change.REORDERED, Change.UNCHANGED, Change.REPLACED]


def test_shares_name_every_kind_and_sum_to_one() -> None:
    shares = share_kinds(classify(reference.batch([([1], [1]), ([1], [1]), ([1], [2]), ([1, 2], [2, 1])])))
    assert (shares[Change.UNCHANGED], shares[Change.REPLACED], shares[Change.REORDERED]) == (0.5, 0.25, 0.25)
    assert set(shares) == set(Change)
    assert sum(shares.values()) == 1
    assert set(share_kinds(np.empty(0, np.int8)).values()) == {0.0}


def kinds(*changes: Change) -> np.ndarray:
    return np.array([CHANGES.index(change) for change in changes], dtype=np.int8)


def test_groups_that_add_most_distance_come_first_where_the_past_is_unknown() -> None:
    found = group_users(
        kinds(Change.REORDERED, Change.REORDERED, Change.REPLACED),
        parts([(0, 0.2, 0), (0, 0.4, 0), (1, 0, 0)]),
        np.arange(3),
        medoids=2,
    )
    assert [(group.change, group.users, group.medoids) for group in found] == [
        (Change.REPLACED, 1, (2,)),
        (Change.REORDERED, 2, (0, 1)),
    ]
    assert [group.distance for group in found] == pytest.approx([1 / 3, 0.2])
    assert [group.share_before for group in found] == [None, None]


def test_groups_that_grew_come_before_groups_that_were_always_there() -> None:
    changes = [Change.PARTLY_REPLACED] * 8 + [Change.REPLACED] * 2
    rows = [(0.5, 0.0, 0.0)] * 8 + [(1.0, 0.0, 0.0)] * 2
    found = group_users(kinds(*changes), parts(rows), np.arange(10), before={Change.PARTLY_REPLACED: 1.0})
    assert [(group.change, group.share, group.share_before) for group in found] == [
        (Change.REPLACED, 0.2, 0.0),
        (Change.PARTLY_REPLACED, 0.8, 1.0),
    ]


def test_users_without_parts_stand_for_nobody() -> None:
    found = group_users(kinds(Change.REPLACED, Change.REPLACED), parts([(np.nan,) * 3, (1, 0, 0)]), np.arange(2), medoids=5)
    assert [(group.users, group.share, group.medoids) for group in found] == [(1, 0.5, (1,))]


def test_groups_of_some_rows_name_rows_of_all() -> None:
    found = group_users(kinds(*[Change.REPLACED] * 4), parts([(1, 0, 0)] * 4), np.array([3, 1]), medoids=1)
    assert [(group.users, group.share, group.medoids) for group in found] == [(2, 1.0, (3,))]


def test_shares_of_runs_are_averaged_over_the_runs_that_hold_the_segment() -> None:
    runs = [{"all": {Change.REPLACED: 0.2}}, {"all": {Change.REPLACED: 0.4}, "c=FR": {Change.REORDERED: 1.0}}]
    found = pool_kinds(runs)
    assert found["all"][Change.REPLACED] == pytest.approx(0.3)
    assert found["all"][Change.REORDERED] == 0
    assert found["c=FR"][Change.REORDERED] == 1
    assert pool_kinds([]) == {}


def test_no_users_are_no_groups() -> None:
    assert group_users(np.empty(0, np.int8), parts([]), np.arange(0)) == ()


def test_the_medoid_is_the_user_in_the_middle() -> None:
    """Sums of distances: 5.3, 4.3, 4.1, 4.1 + 1.2, ...; the third has the least."""
    found = find_medoids(parts([(0.0, 0, 0), (0.5, 0, 0), (0.6, 0, 0), (0.9, 0, 0), (3.0, 0, 0)]), np.arange(5), 3)
    assert found.tolist() == [2, 1, 3]


tenths = st.integers(-20, 20).map(lambda value: value / 10)


@given(st.lists(st.tuples(tenths, tenths, tenths), min_size=1, max_size=30))
def test_medoids_agree_with_scipys_distances_of_all_to_all(rows: list[tuple[float, float, float]]) -> None:
    sums = cdist(rows, rows, "cityblock").sum(axis=1)
    expected = np.lexsort((np.arange(len(rows)), np.round(sums, 6)))
    assert find_medoids(parts(rows), np.arange(len(rows)), len(rows)).tolist() == expected.tolist()
