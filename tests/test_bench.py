"""The benchmarks are not run here; what they measure must still be what they say."""

import numpy as np
import pytest

from bench import calibration, incidents
from bench.calibration import World
from faults import Fault, Kind, Shop


def test_pages_of_a_healthy_world_are_counted_by_copy_and_a_collapse_is_seen_in_all():
    healthy = calibration.count_pages(World(users=200, copies=3, runs=20))
    delays = calibration.find_delays(World(users=500, collapsed=0.5, onset=10, runs=15, copies=3))

    assert healthy.shape == (3,)
    assert np.all(delays[-2] == 1)
    assert calibration.bound(np.array([4, 0, 2])) > healthy.size


@pytest.mark.integration
def test_a_fault_pages_every_receiver_once_says_its_cause_and_then_its_end():
    fault = Fault(kind=Kind.SHARED_LIST, begins=7, ends=10, share=0.3)
    (found,) = incidents.observe([fault], Shop(users=600))

    assert (found.is_right, found.kind) == (True, "shared list")
    assert [(each.pages, each.is_ended) for each in found.received.values()] == [(1, True)] * 4
