from datetime import UTC, datetime, timedelta

import pytest

from monitor.service.daemon.jobs import count_skipped

START = datetime(2024, 1, 1, tzinfo=UTC)
PASSED = [START + timedelta(minutes=minute) for minute in (1, 2, 3)]


@pytest.mark.parametrize(
    ("busy_until", "counts"),
    [
        (None, {"missed": 3}),
        (START, {"missed": 3}),
        (START + timedelta(minutes=2, seconds=10), {"overlap": 2, "missed": 1}),
        (START + timedelta(minutes=5), {"overlap": 3}),
    ],
)
def test_slots_that_passed_while_a_run_was_at_work_are_overlap_and_others_missed(
    busy_until: datetime | None, counts: dict[str, int]
) -> None:
    assert count_skipped(PASSED, busy_until) == counts


def test_no_slot_passed_means_no_count() -> None:
    assert count_skipped([], START) == {}
