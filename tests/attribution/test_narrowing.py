import math

import numpy as np
import pytest

from monitor.attribution import Narrowed, Parts, SegmentDrop, average_parts, decompose_drop, narrow
from monitor.model import Part

N = 400
ROWS = np.arange(N)
SEGMENTS = {
    "all": ROWS,
    "a=new": ROWS[ROWS % 4 == 0],
    "a=old": ROWS[ROWS % 4 != 0],
    "c=DE": ROWS[ROWS % 10 < 4],
    "c=UK": ROWS[ROWS % 10 >= 4],
}


def parts_of(membership: np.ndarray) -> Parts:
    return Parts(membership=membership, order=np.zeros(len(membership)), length=np.zeros(len(membership)))


def usual() -> np.ndarray:
    """New users lie 0.2 farther apart than others, users of DE 0.1, and everybody wanders a little."""
    wander = np.random.default_rng(0).normal(0, 0.02, N)
    return 0.3 + 0.2 * np.isin(ROWS, SEGMENTS["a=new"]) + 0.1 * np.isin(ROWS, SEGMENTS["c=DE"]) + wander


def narrowed(distances: np.ndarray, segments: dict[str, np.ndarray] = SEGMENTS) -> tuple[SegmentDrop, Narrowed | None]:
    """The fall of new users, and whom it comes down to."""
    now, before = parts_of(distances), average_parts(parts_of(usual()), SEGMENTS, {})
    drop = decompose_drop(average_parts(now, segments, {}), before, "a")
    assert drop is not None
    leader = next(each for each in drop.segments if each.segment == "a=new")
    return leader, narrow(leader, now, segments, before)


def test_users_common_to_two_segments_are_named_when_only_they_fell() -> None:
    """40 of 400 users fell by 0.5: 0.05 of the mean, all of it from new users of DE."""
    common = np.intersect1d(SEGMENTS["a=new"], SEGMENTS["c=DE"])
    broken = usual()
    broken[common] += 0.5
    leader, found = narrowed(broken)
    assert leader.within == pytest.approx(0.05)
    assert found is not None
    assert found.drop.segment == "a=new and c=DE"
    assert found.drop.share == pytest.approx(0.1)
    assert found.drop.parts == pytest.approx(dict.fromkeys(Part, 0.0) | {Part.MEMBERSHIP: 0.05}, abs=0.002)
    assert math.isnan(found.drop.share_before)
    np.testing.assert_array_equal(found.rows, common)


def test_all_new_users_are_not_narrowed_down() -> None:
    broken = usual()
    broken[SEGMENTS["a=new"]] += 0.5
    assert narrowed(broken)[1] is None


def test_users_that_usually_lie_apart_are_not_blamed_for_it() -> None:
    """DE lies 0.1 farther apart as ever; the fall is everybody's among new users."""
    broken = usual()
    broken[SEGMENTS["a=new"]] += 0.03
    assert narrowed(broken)[1] is None


def test_a_segment_that_rose_is_not_narrowed_down() -> None:
    assert narrowed(usual() - 0.1)[1] is None


def test_without_a_second_dimension_there_is_nothing_to_narrow_by() -> None:
    common = np.intersect1d(SEGMENTS["a=new"], SEGMENTS["c=DE"])
    broken = usual()
    broken[common] += 0.5
    assert narrowed(broken, {name: SEGMENTS[name] for name in ("all", "a=new", "a=old")})[1] is None


def test_users_without_parts_or_without_a_value_are_passed_over() -> None:
    common = np.intersect1d(SEGMENTS["a=new"], SEGMENTS["c=DE"])
    broken = usual()
    broken[common] += 0.5
    broken[::16] = np.nan
    segments = SEGMENTS | {"c=UK": SEGMENTS["c=UK"][10:]}
    found = narrowed(broken, segments)[1]
    assert found is not None
    assert found.drop.segment == "a=new and c=DE"
    assert not np.isnan(broken[found.rows]).any()


def test_a_segment_without_a_past_is_not_narrowed_down() -> None:
    before = average_parts(parts_of(usual()), {"all": ROWS, "c=DE": SEGMENTS["c=DE"]}, {})
    leader = SegmentDrop(segment="a=new", share=0.25, share_before=0, parts=dict.fromkeys(Part, 0.1))
    assert narrow(leader, parts_of(usual()), SEGMENTS, before) is None
