"""Who leads: as one daemon sees it, and two on one PostgreSQL, where one that was frozen writes nothing once another leads."""

import signal
from contextlib import contextmanager
from unittest.mock import Mock

import pytest
import requests

from factories import SECOND, HeldClock
from monitor.model.daemon_state import Role, RoleKind
from monitor.model.errors import DatabaseError
from monitor.model.runs import Lease, Occupied, RunStatus
from monitor.service.daemon.leadership import Leadership
from monitor.storage import open_store
from servers.daemon import serving, wait_for
from service.lists_world import SIMILAR, write_config, write_lists
from storage.worked import store_at

LEASE_S = 8


def runs_of(url):
    with store_at(url) as store:
        return store.history.runs(comparison=None, limit=1000)


def finished(url):
    return {run.id for run in runs_of(url) if run.status is RunStatus.OK}


def shown(daemon, series):
    found = [
        line for line in daemon.metrics().splitlines() if line.startswith(f"rankwatch_{series} ")
    ]
    return float(found[0].split()[1]) if found else None


def leads(daemon):
    return shown(daemon, "leader") == 1.0


@contextmanager
def daemon_on(folder, url, recommender):
    """A daemon whose candidate is asked over HTTP, every two seconds."""
    folder.mkdir()
    write_lists(folder / "baseline.jsonl", SIMILAR)
    source = f'{{http: {{url: "{recommender.url}", retries: 0, timeout: 1s}}}}\n    deadline: 1s'
    config = write_config(folder, url, every="2s", candidate=source)
    config.write_text(f"lease: {LEASE_S}s\n{config.read_text()}")
    with serving(config) as daemon:
        yield daemon


def test_a_frozen_leader_is_replaced_writes_nothing_afterwards_and_can_lead_again(
    tmp_path, postgres_url, recommender, pooled
):
    """Through a pooler in transaction mode, where nothing may depend on a session."""
    url = pooled(postgres_url)
    open_store(postgres_url, create=True).close()
    with (
        daemon_on(tmp_path / "a", url, recommender) as first,
        daemon_on(tmp_path / "b", url, recommender) as second,
    ):
        wait_for(lambda: second.status_of("/-/ready") == 200, "the standby ready")
        assert shown(second, "leader") == 0.0
        assert shown(second, "lease_epoch") == 1.0
        assert "This daemon is on standby" in requests.get(second.url, timeout=60).text
        wait_for(lambda: finished(postgres_url), "a run")

        _freeze_in_mid_run(first, second, recommender, postgres_url)
        _goes_on(postgres_url)
        first.send(signal.SIGCONT)
        for said in ("no longer the leader", "nothing was written"):  # by the run of the old epoch
            wait_for(lambda said=said: said in first.log.read_text(), said)
        assert not leads(first)
        assert leads(second)

        _goes_on(postgres_url)
        assert not leads(first)
        assert leads(second)

        assert second.terminate() == 0
        wait_for(lambda: leads(first), "the first leading again")
        _goes_on(postgres_url)
        assert shown(first, "lease_epoch") == 3.0
        assert first.terminate() == 0
    runs = runs_of(postgres_url)
    assert len({run.slot for run in runs}) == len(runs)
    assert RunStatus.RUNNING not in {run.status for run in runs}
    assert [run.reason for run in runs if run.status is RunStatus.ABANDONED] == [
        (
            "the daemon that ran it was stopped, frozen or cut off: "
            "another daemon took over under epoch 2"
        )
    ]


def _freeze_in_mid_run(leader, standby, recommender, url):
    """Stop the leader while it waits for lists."""
    recommender.otherwise = "slow"

    def is_frozen():
        asked = len(recommender.asked)
        wait_for(lambda: len(recommender.asked) > asked, "a pull that hangs")
        leader.send(signal.SIGSTOP)
        if RunStatus.RUNNING in {run.status for run in runs_of(url)}:
            return True
        leader.send(signal.SIGCONT)  # too late: its deadline had passed
        return False

    wait_for(is_frozen, "a run that is frozen")
    recommender.otherwise = "ok"
    wait_for(lambda: leads(standby), "the standby leading")
    assert shown(standby, "lease_epoch") == 2.0


def _goes_on(url):
    before = finished(url)
    wait_for(lambda: finished(url) - before, "another run")


LASTS = 15 * SECOND
MINE = Lease(holder="a:1", epoch=4, last_holder=None)
THEIRS = Occupied(holder="b:2", epoch=5, free_in_s=0.4)
KEPT = True
"""What renewing answers."""
AWAY = DatabaseError("PostgreSQL database x cannot be reached", permanent=False)


def scripted(*answers):
    """Leases that answer so, one answer a call; an error is raised."""
    answer = Mock(side_effect=answers)
    return Mock(acquire=answer, renew=answer)


@pytest.fixture
def clock():
    """Its seconds are those since the boot."""
    return HeldClock(seconds=1000.0)


@pytest.fixture
def changes():
    """One for each time that the lease was won or lost."""
    return []


@pytest.fixture
def leadership(clock, changes):
    return lambda *answers: Leadership(
        scripted(*answers),
        lasts=LASTS,
        boottime=clock.monotonic,
        on_change=lambda: changes.append(None),
    )


def test_a_lease_is_renewed_every_third_of_its_time_and_is_not_sure_after_it_expired(
    leadership, changes, clock
):
    one = leadership(MINE, KEPT)

    assert one.step() == 5.0
    assert one.lease == MINE
    assert one.role == Role(kind=RoleKind.LEADER, leader="a:1", epoch=4)
    assert len(changes) == 1

    clock.seconds += 14.9
    assert one.is_sure
    clock.seconds += 0.1
    assert (one.is_sure, one.lease) == (False, MINE), "as after a freeze"
    assert one.step() == 5.0
    clock.seconds += 14.9
    assert one.is_sure


def test_the_time_of_the_databases_answer_counts(clock):
    leases = Mock()

    def answer_late():
        clock.seconds += 9.0
        return MINE

    leases.acquire = answer_late
    one = Leadership(leases, lasts=LASTS, boottime=clock.monotonic)
    one.step()

    clock.seconds += 5.9
    assert one.is_sure
    clock.seconds += 0.1
    assert not one.is_sure


def test_a_standby_names_the_leader_and_retries_when_the_lease_expires(leadership, changes):
    one = leadership(THEIRS, Occupied(holder="b:2", epoch=5, free_in_s=14.0))

    assert one.step() == 0.4
    assert one.role == Role(kind=RoleKind.STANDBY, leader="b:2", epoch=5)
    assert len(changes) == 0
    assert one.step() == 1.0


def test_without_the_database_the_lease_is_kept_but_not_sure(leadership, changes, clock):
    one = leadership(MINE, AWAY, AWAY, KEPT)
    one.step()

    for _ in range(2):
        clock.seconds += 8.0
        assert one.step() == 1.0
    assert one.role.kind == RoleKind.UNSURE
    assert one.database_error == str(AWAY)

    one.step()
    assert one.role.kind == RoleKind.LEADER
    assert one.database_error is None
    assert len(changes) == 1


def test_a_start_waits_for_a_database_that_is_away_but_not_for_one_that_rejects_it(leadership):
    refused = DatabaseError("SQLite database x is in use by another daemon", permanent=True)
    with pytest.raises(DatabaseError, match="in use by another daemon"):
        leadership(refused).start()

    one = leadership(AWAY, THEIRS, *[THEIRS] * 1000)
    one.start()
    assert one.loop.is_alive
    one.stop()
    assert not one.loop.is_alive


def test_a_stop_releases_the_lease_once(clock):
    leases = scripted(MINE)
    one = Leadership(leases, lasts=LASTS, boottime=clock.monotonic)
    one.step()

    one.stop()
    one.stop()

    leases.release.assert_called_once_with(MINE)
    assert one.lease is None
