import numpy as np
import pytest

from monitor.attribution import CHANGES, find_rises
from monitor.model import Change

KINDS = np.array([CHANGES.index(change) for change in [Change.CUT_SHORT] * 4 + [Change.UNCHANGED] * 5 + [Change.REPLACED]])
SEGMENTS = {"all": np.arange(10), "c=DE": np.array([0, 1, 2, 9]), "c=UK": np.array([3, 4, 5, 6, 7, 8])}


def test_shares_rise_as_by_hand() -> None:
    """4 of 10 lists are cut where 1 in 10 was: 3 of 4 in DE, 1 of 6 in UK."""
    before = {name: {Change.CUT_SHORT: 0.1, Change.UNCHANGED: 0.9} for name in SEGMENTS}
    found = find_rises(KINDS.astype(np.int8), SEGMENTS, before)[Change.CUT_SHORT]
    assert (found.total.share, found.total.share_before, found.total.newly) == pytest.approx((0.4, 0.1, 0.3))
    assert [rise.segment for rise in found.segments] == ["c=DE", "c=UK"]
    assert [rise.newly for rise in found.segments] == pytest.approx([0.65 * 0.4, (1 / 6 - 0.1) * 0.6])
    assert found.leader is None
    assert sum(rise.newly for rise in found.segments) == pytest.approx(found.total.newly)


def test_the_segment_that_holds_most_of_a_rise_at_twice_the_share_leads() -> None:
    found = find_rises(KINDS.astype(np.int8), SEGMENTS, {"all": {}})[Change.MOSTLY_REPLACED]
    assert found.total.share == pytest.approx(0.1)
    assert found.leader is found.segments[0]
    assert found.leader.segment == "c=DE"


def test_without_a_past_or_users_nothing_rises() -> None:
    assert find_rises(KINDS.astype(np.int8), SEGMENTS, {}) == {}
    assert find_rises(np.empty(0, np.int8), {"all": np.empty(0, np.intp)}, {"all": {}}) == {}
