"""The benchmarks are not run here; what they measure must still be what they say."""

import numpy as np
import pytest

from bench import calibration, incidents, soak
from bench.calibration import World
from faults import Fault, Kind, Shop


def test_pages_of_a_healthy_world_are_counted_by_copy_and_a_collapse_is_seen_in_all():
    healthy = calibration.count_pages(World(users=200, copies=3, runs=20))
    delays = calibration.find_delays(World(users=500, collapsed=0.5, onset=10, runs=15, copies=3))

    assert healthy.shape == (3,)
    assert np.all(delays[-2] == 1)
    assert calibration.bound(np.array([4, 0, 2])) > healthy.size


def test_growth_is_the_slope_of_the_second_half():
    seconds = np.arange(0, 600, 30.0)
    warm = np.minimum(seconds, 300)

    assert np.allclose(
        soak.slopes_an_hour(np.column_stack([seconds, warm, warm + seconds / 3600])), [0, 1]
    )


@pytest.mark.integration
def test_a_fault_pages_every_receiver_once_says_its_cause_and_then_its_end():
    fault = Fault(kind=Kind.SHARED_LIST, begins=7, ends=10, share=0.3)
    (found,) = incidents.observe([fault], Shop(users=600))

    assert (found.is_right, found.kind) == (True, "shared list")
    assert [(each.pages, each.is_ended) for each in found.received.values()] == [(1, True)] * 4


def test_a_message_without_a_cause_or_of_another_one_is_wrong():
    fault, shop = Fault(kind=Kind.STALE, begins=0, share=0.5), Shop(users=600)
    told = (
        "About 300 of 600 users (50 %) get the same list from the candidate as in the last "
        "run, while other lists changed."
    )
    others = (
        told.replace("300 of", "230 of"),
        told.replace("candidate", "baseline"),
        told.replace(" get", ", most of them in country=FR, get"),
        "the candidate gave no list for 300 of 600 users (50 %), above 1 %",
    )

    assert incidents.find_wrong(fault, shop, incidents.read(told), 0) == []
    wrong = [incidents.find_wrong(fault, shop, incidents.read(text), 0) for text in others]
    assert wrong == [["share"], ["arm"], ["segment"], ["kind"]]
    assert incidents.read("No clear cause. mean of extended_tau is 0.4 over 600 users") is None
