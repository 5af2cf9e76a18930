"""The benchmarks are not run here; what they measure must still be what they say."""

import numpy as np

from bench import calibration, incidents, soak
from bench.calibration import World
from faults import Fault, Kind


def test_pages_of_a_healthy_world_are_counted_by_copy_and_a_collapse_is_seen_in_all() -> None:
    healthy = calibration.count_pages(World(users=200, copies=3, runs=20))
    delays = calibration.find_delays(World(users=500, collapsed=0.5, onset=10, runs=15, copies=3))

    assert healthy.shape == (3,)
    assert np.all(delays[-2] == 1)
    assert calibration.bound(np.array([4, 0, 2])) > healthy.size


def test_growth_is_the_slope_of_the_second_half() -> None:
    seconds = np.arange(0, 600, 30.0)
    warm = np.minimum(seconds, 300)

    assert np.allclose(soak.slopes_an_hour(np.column_stack([seconds, warm, warm + seconds / 3600])), [0, 1])


def test_a_daemon_pages_once_for_a_fault_and_says_its_end_once_to_every_receiver() -> None:
    fault = Fault(kind=Kind.SHARED_LIST, begins=7, ends=10, share=0.3)
    found = incidents.observe({"fault-shared": fault}, days=12)

    assert incidents.is_right("fault-shared", found)
    assert [each.page for each in found if each.receiver == "webhook"] == ["0", "1"]
