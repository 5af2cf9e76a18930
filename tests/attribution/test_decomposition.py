import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.attribution import (
    OTHERS,
    MeanDrop,
    Parts,
    average_parts,
    decompose_all,
    decompose_drop,
    find_leader,
    pool_runs,
    rank_causes,
)
from monitor.model import Part, PartMeans


def decompose_leading(now: Sequence[PartMeans], before: Sequence[PartMeans]) -> MeanDrop | None:
    """The drop over the dimension that explains most of it."""
    return next(iter(decompose_all(now, before)), None)


def row(segment: str, n: int, *means: float, asked: int | None = None, spread: float = 0.1) -> PartMeans:
    """Means of membership, order and length; NaN where none are given."""
    membership, order, length = means or (math.nan,) * 3
    return PartMeans(
        segment=segment,
        asked=n if asked is None else asked,
        n=n,
        membership=membership,
        order=order,
        length=length,
        spread=spread if n else math.nan,
    )


def test_a_drop_is_taken_apart_as_by_hand() -> None:
    """DE grows from 1/4 to 1/2 of the users and goes from 0.4 to 0.8; UK stays at 0.2."""
    before = [row("all", 400, 0.25, 0, 0), row("c=DE", 100, 0.4, 0, 0), row("c=UK", 300, 0.2, 0, 0)]
    now = [row("all", 200, 0.4, 0.1, 0), row("c=DE", 100, 0.6, 0.2, 0), row("c=UK", 100, 0.2, 0, 0)]
    drop = decompose_drop(now, before, "c")
    assert drop is not None
    assert drop.whole == pytest.approx(0.25)
    assert [each.segment for each in drop.segments] == ["c=DE", "c=UK"]
    germany, kingdom = drop.segments
    # Half of the users fell by 0.2 and 0.2; a quarter more of them usually lie 0.15 above the mean, a quarter fewer 0.05 below.
    assert germany.parts[Part.MEMBERSHIP] == pytest.approx(0.1)
    assert germany.parts[Part.ORDER] == pytest.approx(0.1)
    assert germany.parts[Part.COMPOSITION] == pytest.approx(0.0375)
    assert kingdom.parts[Part.COMPOSITION] == pytest.approx(0.0125)
    assert kingdom.within == pytest.approx(0)
    assert drop.parts[Part.COMPOSITION] == pytest.approx(0.05)
    assert drop.parts[Part.MISSING] == 0
    # All segments lost 0.2 within themselves, of which half was due to each by its users.
    assert germany.excess == pytest.approx(0.2375 - 0.1)
    assert kingdom.excess == pytest.approx(0.0125 - 0.1)


def test_users_that_do_not_answer_are_told_from_users_that_are_not_asked() -> None:
    """Both halves are asked as before, but of the better half only 1 in 3 answers."""
    before = [row("all", 200, 0.3, 0, 0), row("c=DE", 100, 0.4, 0, 0), row("c=UK", 100, 0.2, 0, 0)]
    now = [
        row("all", 100, 0.35, 0, 0, asked=150),
        row("c=DE", 75, 0.4, 0, 0, asked=75),
        row("c=UK", 25, 0.2, 0, 0, asked=75),
    ]
    drop = decompose_drop(now, before, "c")
    assert drop is not None
    assert drop.parts == pytest.approx(dict.fromkeys(Part, 0.0) | {Part.MISSING: 0.05})


def test_the_standard_error_is_that_of_a_difference_of_means() -> None:
    drop = decompose_drop([row("all", 100, 0.5, 0, 0, spread=0.3)], [row("all", 400, 0.4, 0, 0, spread=0.4)], "all")
    assert drop is not None
    assert drop.noise == pytest.approx(math.sqrt(0.0009 + 0.0004))


def test_a_segment_that_appears_or_vanishes_is_all_mix() -> None:
    before = [row("all", 200, 0.3, 0, 0), row("c=DE", 100, 0.4, 0, 0), row("c=UK", 100, 0.2, 0, 0)]
    now = [row("all", 200, 0.5, 0, 0), row("c=FR", 100, 0.6, 0, 0), row("c=DE", 100, 0.4, 0, 0)]
    drop = decompose_drop(now, before, "c")
    assert drop is not None
    found = {each.segment: each for each in drop.segments}
    assert found["c=FR"].parts == pytest.approx(dict.fromkeys(Part, 0.0) | {Part.COMPOSITION: 0.15})
    assert found["c=UK"].parts == pytest.approx(dict.fromkeys(Part, 0.0) | {Part.COMPOSITION: 0.05})
    assert found["c=DE"].whole == pytest.approx(0)
    assert drop.segments[0].segment == "c=FR"


def test_a_segment_that_nobody_answers_for_is_all_missing() -> None:
    before = [row("all", 200, 0.3, 0, 0), row("c=DE", 100, 0.4, 0, 0), row("c=UK", 100, 0.2, 0, 0)]
    now = [row("all", 100, 0.4, 0, 0, asked=200), row("c=DE", 100, 0.4, 0, 0), row("c=UK", 0, asked=100)]
    drop = decompose_drop(now, before, "c")
    assert drop is not None
    assert drop.parts == pytest.approx(dict.fromkeys(Part, 0.0) | {Part.MISSING: 0.1})


def test_users_of_no_segment_are_taken_together() -> None:
    before = [row("all", 200, 0.3, 0, 0), row("c=DE", 100, 0.4, 0, 0)]
    now = [row("all", 200, 0.35, 0, 0), row("c=DE", 100, 0.4, 0, 0)]
    drop = decompose_drop(now, before, "c")
    assert drop is not None
    assert [each.segment for each in drop.segments] == [f"c={OTHERS}", "c=DE"]
    assert drop.segments[0].parts[Part.MEMBERSHIP] == pytest.approx(0.05)


def test_segments_that_overlap_are_refused() -> None:
    now = [row("all", 100, 0.3, 0, 0), row("c=DE", 80, 0.3, 0, 0), row("c=UK", 80, 0.3, 0, 0)]
    with pytest.raises(ValueError, match="c: its segments hold more users than all, 100 scored of 100 asked"):
        decompose_drop(now, now, "c")


@pytest.mark.parametrize("nobody", [[], [row("all", 0)], [row("all", 0, asked=50)]])
def test_without_a_user_on_either_side_there_is_no_drop_to_explain(nobody: list[PartMeans]) -> None:
    somebody = [row("all", 1, 0.3, 0, 0)]
    assert decompose_leading(nobody, somebody) is None
    assert decompose_leading(somebody, nobody) is None


def test_without_segments_the_drop_is_that_of_all() -> None:
    drop = decompose_leading([row("all", 10, 0.5, 0.1, 0)], [row("all", 10, 0.3, 0.1, 0)])
    assert drop is not None
    assert (drop.dimension, [each.segment for each in drop.segments]) == ("all", ["all"])
    assert drop.parts[Part.MEMBERSHIP] == pytest.approx(0.2)
    assert find_leader(drop) is None


def test_a_dimension_that_is_named_like_the_segment_of_all_is_never_added_to_it() -> None:
    now = [row("all", 10, 0.5, 0, 0), row("all=x", 10, 0.5, 0, 0)]
    drop = decompose_leading(now, [row("all", 10, 0.3, 0, 0), row("all=x", 10, 0.3, 0, 0)])
    assert drop is not None
    assert math.fsum(drop.parts.values()) == pytest.approx(0.2)


def uneven(fall_of_germany: float, fall: float) -> tuple[list[PartMeans], list[PartMeans]]:
    """1 in 10 users is in DE; activity cuts across."""
    before = [row("all", 1000, 0.3, 0, 0)]
    before += [row("a=old", 500, 0.3, 0, 0), row("a=new", 500, 0.3, 0, 0)]
    before += [row("c=DE", 100, 0.3, 0, 0), row("c=UK", 900, 0.3, 0, 0)]
    means = {"c=DE": 0.3 + fall_of_germany, "c=UK": 0.3 + fall}
    means["all"] = means["a=old"] = means["a=new"] = 0.1 * means["c=DE"] + 0.9 * means["c=UK"]
    return [row(each.segment, each.n, means[each.segment], 0, 0) for each in before], before


def test_the_dimension_whose_segments_fell_differently_explains_most() -> None:
    drop = decompose_leading(*uneven(0.5, 0.0))
    assert drop is not None
    assert drop.dimension == "c"
    leader = find_leader(drop)
    assert leader is not None
    assert leader.segment == "c=DE"


def test_a_small_segment_leads_where_a_large_one_adds_more_by_its_size() -> None:
    """A shock to everybody: UK adds 0.045, DE 0.055 of which 0.045 are its own."""
    drop = decompose_leading(*uneven(0.35, 0.05))
    assert drop is not None
    leader = find_leader(drop)
    assert leader is not None
    assert leader.segment == "c=DE"
    assert leader.excess == pytest.approx(0.035 - 0.1 * 0.08)


@pytest.mark.parametrize(("germany", "kingdom"), [(0.2, 0.2), (0.21, 0.2), (0.0, 0.0)])
def test_nobody_leads_where_all_fell_alike(germany: float, kingdom: float) -> None:
    drop = decompose_leading(*uneven(germany, kingdom))
    assert drop is not None
    assert find_leader(drop) is None


def test_causes_sum_to_the_drop_and_the_leading_part_is_cut_in_two() -> None:
    drop = decompose_leading(*uneven(0.35, 0.05))
    assert drop is not None
    causes = rank_causes(drop, find_leader(drop))
    assert [(cause.segment, cause.part, cause.is_rest) for cause in causes[:2]] == [
        ("c=DE", Part.MEMBERSHIP, False),
        (None, Part.MEMBERSHIP, True),
    ]
    assert [cause.amount for cause in causes[:2]] == pytest.approx([0.035, 0.045])
    assert math.fsum(cause.amount for cause in causes) == pytest.approx(drop.whole, abs=1e-12)


@st.composite
def users(draw: Any) -> tuple[Parts, dict[str, np.ndarray], dict[str, int]]:
    """Up to 40 users with parts or none, in two dimensions that a few belong to no segment of, and more that were asked."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.normal(size=(3, n))
    values[:, rng.random(n) < 0.2] = np.nan
    segments = {"all": np.arange(n)}
    for dimension, size in (("country", 4), ("activity", 3)):
        value = rng.integers(-1, size, n)
        segments |= {f"{dimension}={code}": np.flatnonzero(value == code) for code in range(size) if (value == code).any()}
    more = {name: int(rng.integers(0, 5)) for name in segments if name != "all"}
    asked = {name: len(segments[name]) + extra for name, extra in more.items()}
    asked["all"] = n + sum(more.values())
    return Parts(membership=values[0], order=values[1], length=values[2]), segments, asked


@given(users(), users())
def test_parts_by_segments_sum_to_the_whole_in_every_dimension(
    ours: tuple[Parts, dict[str, np.ndarray], dict[str, int]], theirs: tuple[Parts, dict[str, np.ndarray], dict[str, int]]
) -> None:
    now, before = average_parts(*ours), average_parts(*theirs)
    if not (now[0].n and before[0].n):
        assert decompose_leading(now, before) is None
        return
    whole = np.nanmean(ours[0].whole) - np.nanmean(theirs[0].whole)
    for dimension in ("all", "country", "activity"):
        drop = decompose_drop(now, before, dimension)
        assert drop is not None
        assert drop.whole == pytest.approx(whole, abs=1e-9)
        assert math.fsum(drop.parts.values()) == pytest.approx(whole, abs=1e-9)
        assert math.fsum(each.whole for each in drop.segments) == pytest.approx(whole, abs=1e-9)
        assert math.fsum(each.excess for each in drop.segments) == pytest.approx(
            drop.parts[Part.COMPOSITION] + drop.parts[Part.MISSING], abs=1e-9
        )
        causes = rank_causes(drop, find_leader(drop))
        assert math.fsum(cause.amount for cause in causes) == pytest.approx(whole, abs=1e-9)


@given(users(), st.permutations(["all", "country=0", "country=1", "country=2", "country=3"]))
def test_the_order_in_which_segments_are_given_changes_nothing(
    ours: tuple[Parts, dict[str, np.ndarray], dict[str, int]], order: list[str]
) -> None:
    parts, segments, asked = ours
    turned = {name: segments[name] for name in (*order, *segments) if name in segments}
    now, again = average_parts(parts, segments, asked), average_parts(parts, turned, asked)
    assert str(now) == str(again)
    assert str(decompose_leading(now, now)) == str(decompose_leading(again[::-1], again))


def test_means_leave_out_users_whose_parts_are_unknown_but_count_them_as_asked() -> None:
    nan = math.nan
    parts = Parts(membership=np.array([0.2, nan, 0.4]), order=np.array([0.1, nan, 0.1]), length=np.array([0.0, nan, 0.2]))
    found = average_parts(parts, {"all": np.arange(3), "c=UK": np.array([1])}, {"all": 4, "c=DE": 1})
    assert [(each.segment, each.asked, each.n) for each in found] == [("all", 4, 2), ("c=DE", 1, 0), ("c=UK", 1, 0)]
    assert (found[0].membership, found[0].order, found[0].length) == pytest.approx((0.3, 0.1, 0.1))
    assert found[0].spread == pytest.approx(0.2)
    assert math.isnan(found[1].whole)


@given(st.lists(users(), min_size=1, max_size=4))
def test_runs_pooled_are_what_all_their_users_as_one_run_would_be(
    runs: list[tuple[Parts, dict[str, np.ndarray], dict[str, int]]],
) -> None:
    pooled = {each.segment: each for each in pool_runs([average_parts(*run) for run in runs])}
    for name, found in pooled.items():
        members = [(parts, segments.get(name, np.empty(0, dtype=np.intp))) for parts, segments, _ in runs]
        together = [np.concatenate([getattr(parts, part)[rows] for parts, rows in members]) for part in ("membership", "order")]
        known = together[0][~np.isnan(together[0])]
        whole = np.concatenate([parts.whole[rows] for parts, rows in members])
        assert found.n == len(known)
        assert found.asked == sum(asked.get(name, 0) for _, _, asked in runs)
        if len(known):
            assert found.membership == pytest.approx(known.mean(), abs=1e-12)
            assert found.order == pytest.approx(np.nanmean(together[1]), abs=1e-12)
            assert found.spread == pytest.approx(np.nanstd(whole), abs=1e-9)
        else:
            assert math.isnan(found.membership)
