import numpy as np
import pytest

from kernels import reference
from monitor.attribution.changes import CHANGES, classify, find_central, group_users, share_kinds
from monitor.attribution.parts import Parts
from monitor.model.explanation import Change, ExampleLists, UserGroup


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


def show(row: int) -> ExampleLists:
    return ExampleLists(user=f"u{row}", baseline=(), candidate=())


def shown(group: UserGroup) -> list[str]:
    return [example.user for example in group.examples]


def test_groups_that_add_most_distance_come_first_where_the_past_is_unknown() -> None:
    found = group_users(
        kinds(Change.REORDERED, Change.REORDERED, Change.REPLACED),
        parts([(0, 0.2, 0), (0, 0.4, 0), (1, 0, 0)]),
        np.arange(3),
        show=show,
        examples=2,
    )
    assert [(group.change, group.users, shown(group)) for group in found] == [
        (Change.REPLACED, 1, ["u2"]),
        (Change.REORDERED, 2, ["u0", "u1"]),
    ]
    assert [group.distance for group in found] == pytest.approx([1 / 3, 0.2])
    assert [group.share_before for group in found] == [None, None]


def test_groups_that_grew_come_before_groups_that_were_always_there() -> None:
    changes = [Change.PARTLY_REPLACED] * 8 + [Change.REPLACED] * 2
    rows = [(0.5, 0.0, 0.0)] * 8 + [(1.0, 0.0, 0.0)] * 2
    before = share_kinds(kinds(Change.PARTLY_REPLACED))
    found = group_users(kinds(*changes), parts(rows), np.arange(10), before=before, show=show)
    assert [(group.change, group.share, group.share_before) for group in found] == [
        (Change.REPLACED, 0.2, 0.0),
        (Change.PARTLY_REPLACED, 0.8, 1.0),
    ]


def test_users_without_parts_stand_for_nobody_and_groups_of_some_rows_name_rows_of_all() -> None:
    replaced = kinds(*[Change.REPLACED] * 4)
    (found,) = group_users(replaced, parts([(1, 0, 0), (np.nan,) * 3, (1, 0, 0), (1, 0, 0)]), np.array([3, 1]), show=show)
    assert (found.users, found.share, shown(found)) == (1, 0.5, ["u3"])
    assert group_users(replaced, parts([(1, 0, 0)] * 4), np.arange(0), show=show) == ()


def test_the_user_in_the_middle_is_the_most_central() -> None:
    found = find_central(parts([(0.0, 0, 0), (0.5, 0, 0), (0.6, 0, 0), (0.9, 0, 0), (3.0, 0, 0)]), np.arange(5))
    assert found.tolist() == [2, 1, 3, 0, 4]
