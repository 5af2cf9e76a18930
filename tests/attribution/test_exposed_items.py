"""No item is said to have entered or risen while the share that stands beside it fell."""

import numpy as np

from monitor.attribution.decomposition import compare_exposure
from monitor.receivers.message.content import item_lines


def test_an_item_that_moved_up_in_fewer_lists_neither_rose_nor_fell():
    # Item 1: last in 28 of 100 lists, then first in 23. Item 2 rises, item 3 falls.
    before = np.array([[2, 4, 5, 1]] * 28 + [[3, 4, 5, 6]] * 72, dtype=np.int32)
    after = np.array([[1, 4, 5, 2]] * 23 + [[2, 4, 5, 6]] * 77, dtype=np.int32)
    found = compare_exposure(before, after, 10)

    assert "1" not in [each.item for each in (*found.gained, *found.lost)]
    assert item_lines(found.gained, None)[0].startswith(
        "2: in 28 % of baseline lists, 100 % of candidate lists"
    )
    for each in found.gained:
        assert round(100 * each.share_after) >= round(100 * each.share_before)
    for each in found.lost:
        assert round(100 * each.share_after) <= round(100 * each.share_before)
