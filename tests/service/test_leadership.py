"""Who leads, as one daemon sees it: sure only within the lease, lost only when the database says so."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from factories import HeldClock
from monitor.errors import DatabaseError
from monitor.model.runs import Lease, Occupied
from monitor.service.daemon.leadership import Leadership, since_boot

LASTS = timedelta(seconds=15)
MINE = Lease(holder="a:1", epoch=4, before=None)
THEIRS = Occupied(holder="b:2", epoch=5, free_in_s=0.4)
KEPT, TAKEN = True, False
"""What renewing answers."""
AWAY = DatabaseError("PostgreSQL database x cannot be reached", permanent=False)


class Script:
    """Leases that answer as a test says: one answer a call, an error is raised."""

    def __init__(self, *answers: Lease | Occupied | bool | DatabaseError) -> None:
        self.answers = list(answers)
        self.released: list[Lease] = []
        self.closed = 0

    def _next(self) -> Lease | Occupied | bool:
        answer = self.answers.pop(0)
        if isinstance(answer, DatabaseError):
            raise answer
        return answer

    def acquire(self) -> Lease | Occupied:
        answer = self._next()
        assert not isinstance(answer, bool)
        return answer

    def renew(self, lease: Lease) -> bool:
        assert lease == MINE
        return self._next() is True

    def release(self, lease: Lease) -> None:
        self.released.append(lease)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def clock() -> HeldClock:
    """Its seconds are those since the boot."""
    return HeldClock(seconds=1000.0)


@pytest.fixture
def changes() -> list[None]:
    """One for each time that the lease was won or lost."""
    return []


@pytest.fixture
def leadership(clock: HeldClock, changes: list[None]) -> Callable[..., Leadership]:
    return lambda *answers: Leadership(
        Script(*answers), lasts=LASTS, boottime=clock.monotonic, on_change=lambda: changes.append(None)
    )


Make = Callable[..., Leadership]


def test_a_free_lease_is_taken_and_renewed_every_third_of_its_time(
    leadership: Make, changes: list[None], clock: HeldClock
) -> None:
    one = leadership(MINE, KEPT)

    assert one.step() == 5.0
    assert (one.lease, one.is_sure, one.epoch, one.describe()) == (MINE, True, 4, None)
    assert len(changes) == 1

    clock.seconds += 14.9
    assert one.is_sure
    assert one.step() == 5.0
    clock.seconds += 14.9
    assert one.is_sure


def test_who_did_not_renew_in_time_is_not_sure_even_if_nobody_told_them(leadership: Make, clock: HeldClock) -> None:
    """As after a freeze or a suspended machine: nothing may be sent before the lease was renewed."""
    one = leadership(MINE, KEPT)
    one.step()

    clock.seconds += 15.0

    assert not one.is_sure
    assert one.lease == MINE
    one.step()
    assert one.is_sure


def test_time_that_the_database_took_to_answer_counts_as_passed(clock: HeldClock) -> None:
    class Slow(Script):
        def acquire(self) -> Lease | Occupied:
            clock.seconds += 9.0
            return super().acquire()

    one = Leadership(Slow(MINE), lasts=LASTS, boottime=clock.monotonic)
    one.step()

    clock.seconds += 5.9
    assert one.is_sure
    clock.seconds += 0.1
    assert not one.is_sure


def test_a_standby_says_who_leads_and_looks_again_when_the_lease_runs_out(leadership: Make, changes: list[None]) -> None:
    one = leadership(THEIRS, Occupied(holder="b:2", epoch=5, free_in_s=14.0))

    assert one.step() == 0.4
    assert (one.lease, one.is_sure, one.epoch) == (None, False, 5)
    assert one.describe() == "This daemon stands by: b:2 (host:process) leads under epoch 5."
    assert len(changes) == 0
    assert one.step() == 1.0


def test_a_lease_that_another_has_taken_is_lost_and_then_stood_by(leadership: Make, changes: list[None]) -> None:
    one = leadership(MINE, TAKEN, THEIRS)
    one.step()

    assert one.step() == 0.0
    assert (one.lease, one.is_sure) == (None, False)
    assert len(changes) == 2
    one.step()
    assert one.epoch == 5


def test_a_database_that_is_away_takes_no_lease_but_makes_nobody_sure(
    leadership: Make, changes: list[None], clock: HeldClock
) -> None:
    one = leadership(MINE, AWAY, AWAY, KEPT)
    one.step()

    for _ in range(2):
        clock.seconds += 8.0
        assert one.step() == 1.0
    assert (one.lease, one.is_sure, one.trouble) == (MINE, False, str(AWAY))

    one.step()
    assert (one.lease, one.is_sure, one.trouble) == (MINE, True, None)
    assert len(changes) == 1


def test_a_start_bears_a_database_that_is_away_but_not_one_that_refuses(leadership: Make) -> None:
    refused = DatabaseError("SQLite database x is in use by another daemon", permanent=True)
    with pytest.raises(DatabaseError, match="in use by another daemon"):
        leadership(refused).start()

    one = leadership(AWAY, THEIRS, *[THEIRS] * 1000)
    one.start()
    assert one.loop.is_alive
    one.stop()
    assert not one.loop.is_alive


def test_a_stop_gives_the_lease_back_once(clock: HeldClock) -> None:
    script = Script(MINE)
    one = Leadership(script, lasts=LASTS, boottime=clock.monotonic)
    one.step()

    one.stop()
    one.stop()

    assert script.released == [MINE]
    assert one.lease is None


def test_time_since_boot_only_grows() -> None:
    assert 0 < since_boot() <= since_boot()
