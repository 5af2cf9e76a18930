"""A database that is away, cut, silent, slow or full: who notices, who is told, and that work goes on by itself."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import make_url

from factories import HOUR
from logs import captured
from monitor.errors import DatabaseError
from monitor.service.daemon import outage
from monitor.service.daemon.daemon import Daemon
from monitor.storage import schema_version
from servers.daemon import wait_for
from servers.disk import small_disk
from servers.proxy import Proxy, proxying
from servers.webhook import Collector
from service.lists_world import write_world
from service.stepped_daemon import Watched, watching
from service.test_clock import NOON

pytestmark = pytest.mark.early

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    port = make_url(postgres_url).port
    assert port is not None
    with proxying(port) as proxy:
        yield proxy


@pytest.fixture
def config(tmp_path: Path, postgres_url: str, proxy: Proxy, collector: Collector) -> Path:
    url = make_url(postgres_url).set(port=proxy.port).render_as_string(hide_password=False)
    return write_world(tmp_path, url, every="1h", receivers=hook(collector))


def hook(collector: Collector) -> str:
    return f'receivers: [{{webhook: {{url: "{collector.url}/hook", timeout: 5s}}}}]\n'


def told(collector: Collector) -> list[str]:
    return [json.loads(each.body)["status"] for each in collector.requests if b"DatabaseAway" in each.body]


def is_away(watched: Watched) -> bool:
    return watched.value("database_up") == 0 and watched.status_of("/-/ready") == 503


def test_a_database_that_is_away_at_the_start_is_waited_for_and_on_call_hears_of_it_once_until_it_is_back(
    config: Path, proxy: Proxy, collector: Collector
) -> None:
    proxy.refuse()
    with watching(config) as watched:
        assert is_away(watched)
        assert watched.status_of("/-/healthy") == 200
        assert (watched.value('database_errors_total{reason="unreachable"}') or 0) >= 1
        watched.let_pass(MINUTE)
        assert told(collector) == []
        watched.pass_until(lambda: told(collector), "the message", 20 * SECOND)
        proxy.resume()
        watched.pass_until(lambda: watched.status_of("/-/ready") == 200, "readiness", SECOND)
        wait_for(watched.runs, "a run")
        watched.pass_until(lambda: told(collector)[-1] == "resolved", "the end")
        assert told(collector) == ["firing", "resolved"]
        assert watched.value("database_up") == 1


@pytest.mark.parametrize("fault", [Proxy.refuse, Proxy.cut, Proxy.hang], ids=["refused", "cut", "silent"])
def test_after_a_fault_in_mid_run_the_slot_is_run_once_and_work_goes_on_by_itself(
    config: Path, proxy: Proxy, fault: Callable[[Proxy], None]
) -> None:
    with watching(config) as watched:
        watched.await_run(NOON)
        hung = watched.daemon._wiring.watched["feed"]
        with hung.in_use:
            watched.let_pass(HOUR)
            wait_for(lambda: watched.daemon._runner.claims, "a run under way")
            fault(proxy)
        if fault is not Proxy.cut:
            watched.pass_until(lambda: is_away(watched), "that it is away", SECOND, may_hang=fault is Proxy.hang)
            wait_for(lambda: watched.status_of("/-/healthy") == 200, "the watchdog's next look")
        proxy.resume()
        watched.await_run(NOON + HOUR)
        watched.pass_until(lambda: watched.status_of("/-/ready") == 200, "readiness", SECOND)
        assert set(watched.runs()) == {NOON, NOON + HOUR}
        watched.let_pass(HOUR)
        wait_for(lambda: len(watched.runs()) == 3, "the next slot's run")


def test_a_slow_database_is_no_outage(config: Path, proxy: Proxy) -> None:
    with watching(config) as watched:
        watched.await_run(NOON)
        proxy.slow(0.02)
        watched.let_pass(HOUR)
        watched.await_run(NOON + HOUR)
        assert watched.status_of("/-/ready") == 200
        assert watched.value("database_up") == 1
        proxy.resume()


def test_what_waiting_will_not_mend_is_an_error_at_the_start(tmp_path: Path, postgres_url: str) -> None:
    url = make_url(postgres_url).set(database="no_such_database").render_as_string(hide_password=False)
    daemon = Daemon(write_world(tmp_path, url))
    with pytest.raises(DatabaseError) as caught:
        daemon.start()
    assert caught.value.permanent


def test_a_database_of_another_schema_is_away_until_it_is_upgraded_although_it_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = captured(monkeypatch, outage)
    url = f"sqlite:///{tmp_path}/rankwatch.db"

    def logged() -> list[str]:
        return [line["event"] for line in lines.entries]

    with watching(write_world(tmp_path, url, every="1h")) as watched:

        def refused() -> float:
            return watched.value('database_errors_total{reason="schema"}') or 0

        watched.await_run(NOON)
        schema_version.downgrade(url, "-1")  # a look at this very moment may find it locked
        watched.pass_until(lambda: refused() and logged()[-1:] == ["database away"], "a look", 5 * SECOND)
        before, first = logged(), refused()
        watched.pass_until(lambda: refused() >= first + 3, "more looks", 5 * SECOND)
        assert is_away(watched)
        assert logged() == before
        schema_version.upgrade(url)
        watched.pass_until(lambda: watched.value("database_up") == 1, "that it is back", 5 * SECOND)
        wait_for(lambda: logged() == [*before, "database back"], "the line that says so")


def test_on_a_full_disk_nothing_is_stored_by_halves_and_once_there_is_space_work_goes_on(
    tmp_path: Path, collector: Collector
) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        config = write_world(tmp_path, f"sqlite:///{disk}/rankwatch.db", every="1h", receivers=hook(collector))
        with watching(config) as watched:
            watched.await_run(NOON)
            fill(disk / "filler")
            watched.let_pass(HOUR)
            watched.pass_until(lambda: is_away(watched), "that nothing can be written", timedelta(0))
            assert watched.status_of("/-/healthy") == 200
            assert (watched.value('database_errors_total{reason="disk"}') or 0) >= 1
            watched.pass_until(lambda: told(collector), "the message", 20 * SECOND)
            assert b"disk" in collector.requests[0].body
            (disk / "filler").unlink()
            watched.pass_until(lambda: watched.value("database_up") == 1, "that it can be written", timedelta(seconds=5))
            watched.await_run(NOON + HOUR)
            watched.pass_until(lambda: told(collector)[-1] == "resolved", "the end")
            assert told(collector) == ["firing", "resolved"]


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return
