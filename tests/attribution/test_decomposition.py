"""What users add to a drop of the mean, by part and segment, exactly.

And where the users are that something happened to.
"""

import numpy as np
import pytest

from kernels import reference
from monitor.model.explanation import DropPart
from monitor.model.rankings import Arm
from monitor.statistics.attribution.changes import PairChanges
from monitor.statistics.attribution.decomposition import (
    OTHER_SEGMENTS,
    decompose_drop,
    find_affected_segment,
    rows_of_segment,
)
from monitor.statistics.attribution.parts import Parts
from tables import cells


def changes_of(membership, order=0.0):
    """The candidate's change, NaN of users of whom nothing earlier is known."""
    nothing = 0.0 * membership
    former = reference.batch([([], [])] * len(membership))
    parts, none = (
        Parts(membership=each, order=each * 0 + by, length=nothing)
        for each, by in ((membership, order), (nothing, 0))
    )
    by_arm = {Arm.BASELINE: none, Arm.CANDIDATE: parts}
    return PairChanges(
        former=former, is_known=~np.isnan(membership), lists={}, by_arm=by_arm, is_unchanged={}
    )


def decompose(distance, changes, segments):
    found = decompose_drop(distance, changes, {"all": np.arange(len(distance))} | segments)
    assert found is not None
    return found


def test_a_drop_is_taken_apart_as_by_hand():
    """Of four users two of DE were apart by 0.2 and 0.4 and are by 0.6 and 1.0, one of UK stays at 0.2, and another is new."""
    drop = decompose(
        np.array([0.6, 1.0, 0.2, 1.0]),
        changes_of(np.array([0.4, 0.2, 0.0, np.nan]), np.array([0.0, 0.4, 0.0, np.nan])),
        {"c=DE": np.array([0, 1]), "c=UK": np.array([2, 3])},
    )
    # Three were 0.8 / 3 apart and are 1.8 / 3; with the new one the mean is 0.7.
    assert (drop.before, drop.now) == pytest.approx((0.8 / 3, 0.7))
    assert drop.parts == pytest.approx(
        {"membership": 0.2, "order": 0.4 / 3, "length": 0.0, "composition": 0.1}
    )
    germany, kingdom = drop.falls
    assert germany.segment == "c=DE"
    assert (germany.share, germany.share_before) == pytest.approx((1 / 2, 2 / 3))
    assert germany.by_changed_lists == pytest.approx(1 / 3)
    assert germany.excess == pytest.approx(1 / 3 - 2 / 9)
    # The three lie 0.6 apart; DE adds 0.4 above that to four users, and would to three: the new one
    # is to blame.
    assert germany.parts[DropPart.COMPOSITION] == pytest.approx(0.4 / 4 - 0.4 / 3)
    assert kingdom.parts == pytest.approx(
        {"membership": 0, "order": 0, "length": 0, "composition": 0.1 - (0.1 - 0.4 / 3)}
    )
    assert [cause.part for cause in drop.causes] == ["membership", "order", "composition", "length"]
    assert germany.total + kingdom.total == pytest.approx(drop.now - drop.before)
    assert drop.amount == pytest.approx(drop.now - drop.before)
    assert germany.excess + kingdom.excess == pytest.approx(0)


def test_without_a_user_whose_change_is_known_there_is_no_drop():
    nan = np.full(3, np.nan)
    assert decompose_drop(np.ones(3), changes_of(nan), {"all": np.arange(3)}) is None
    assert decompose_drop(nan, changes_of(np.ones(3)), {"all": np.arange(3)}) is None


def test_without_segments_the_drop_is_that_of_all_whatever_a_dimension_is_called():
    change = np.full(4, 0.2)
    assert [fall.segment for fall in decompose(change, changes_of(change), {}).falls] == ["all"]
    named = decompose(change, changes_of(change), {"all=x": np.arange(4)})
    assert {fall.segment: fall.total for fall in named.falls} == pytest.approx({"all=x": 0.2})


def test_users_without_a_segment_are_counted_with_the_segment_of_the_same_name():
    segments = {"c=DE": np.array([0]), f"c={OTHER_SEGMENTS}": np.array([1])}
    found = decompose(np.ones(4), changes_of(np.array([0.0, 1.0, 1.0, 0.0])), segments)
    assert {fall.segment: fall.share for fall in found.falls} == {
        "c=DE": 0.25,
        f"c={OTHER_SEGMENTS}": 0.75,
    }


FALLS = """
# germany  kingdom  leads
0.5        0.0      c=DE
0.35       0.05     c=DE
0.2        -0.1     c=DE
0.2        0.2      nobody
0.21       0.2      nobody
0.0        0.0      nobody
0.0        -0.3     nobody
"""


def test_a_small_segment_leads_where_it_fell_more_than_a_large_one_that_adds_more_by_its_size():
    """One in ten users is in DE; activity cuts across, and users differ a little."""
    for germany, kingdom, leads in cells(FALLS):
        rows = np.arange(1000)
        change = np.where(rows % 10 == 0, float(germany), float(kingdom)) + 0.01 * np.sin(rows)
        segments = {
            f"c={name}": np.flatnonzero((rows % 10 == 0) == (name == "DE")) for name in ("DE", "UK")
        }
        segments |= {f"a={half}": np.flatnonzero(rows // 500 == half) for half in (0, 1)}
        drop = decompose(0.3 + change, changes_of(change), segments)
        assert (drop.main_segment.segment if drop.main_segment else "nobody") == leads
        if drop.main_segment:
            assert drop.main_segment == drop.falls[0]
            assert drop.is_clear == (drop.amount > 0)


def test_a_few_users_who_fell_by_chance_lead_nothing():
    change = np.random.default_rng(3).normal(size=200)
    segments = {f"c={value}": np.flatnonzero(np.arange(200) % 20 == value) for value in range(20)}
    drop = decompose(np.ones(200), changes_of(change), segments)
    assert drop.main_segment is None
    assert not drop.is_clear


N = 1000
PLACES = np.arange(N)
COUNTRY = PLACES % 5
ACTIVITY = PLACES // 250
SEGMENTS = {
    "all": PLACES,
    **{f"country={value}": np.flatnonzero(value == COUNTRY) for value in range(5)},
    **{f"activity={value}": np.flatnonzero(value == ACTIVITY) for value in range(4)},
}


def test_the_segment_of_the_hit_users_is_named_or_two_segments_if_they_fit_better():
    for affected, usual, named in [
        (COUNTRY == 2, 0.0, "country=2"),
        ((COUNTRY == 2) & (ACTIVITY == 1), 0.0, "activity=1 and country=2"),
        ((COUNTRY == 2) & (PLACES % 3 > 0), 0.0, "country=2"),
        # From everywhere, or nobody.
        (PLACES % 3 == 0, 0.0, "all"),
        (PLACES < 0, 0.0, "all"),
        ((COUNTRY == 2) | (ACTIVITY == 1), 0.0, "all"),
        # Who would be affected anyhow does not hide the segment.
        ((COUNTRY == 2) | (PLACES % 7 == 0), 1 / 7, "country=2"),
        (PLACES % 7 == 0, 1 / 7, "all"),
        # Lists of these users always change more.
        (COUNTRY == 2, (COUNTRY == 2) * 1.0, "all"),
        # Fewer users look affected than usual, but not there.
        (COUNTRY == 2, 0.6, "country=2"),
    ]:
        assert find_affected_segment(affected, usual, SEGMENTS) == named


def test_a_place_is_parsed_even_if_a_name_contains_the_word_and():
    segments = {
        "all": np.arange(4),
        "genre=rock and pop": np.array([1, 2]),
        "country=DE": np.array([2, 3]),
    }
    assert rows_of_segment("country=DE and genre=rock and pop", segments).tolist() == [2]
    assert rows_of_segment("genre=rock and pop", segments).tolist() == [1, 2]
    assert not rows_of_segment("genre=jazz", segments).tolist()
