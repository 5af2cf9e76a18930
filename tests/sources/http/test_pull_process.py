"""Pulls in a process of their own are those of this one, whatever becomes of it."""

import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from monitor.errors import SourceError
from monitor.model.runs import PullProgress
from monitor.sources.http import connection_pool, pull_process
from monitor.sources.http.pull_process import PullProcess
from servers.daemon import wait_for
from servers.lists import as_lists, pull_of, request, source_of

USERS = [f"u{number}" for number in range(40)]
pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def kept() -> Iterator[list[PullProcess]]:
    """The process that a test leaves alive, for the next one."""
    processes = list[PullProcess]()
    yield processes
    for process in processes:
        process.end()


@pytest.fixture(autouse=True)
def busy(kept: list[PullProcess], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that pulls a lot on more than one core."""
    monkeypatch.setattr(pull_process, "is_busy", lambda: True)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(pull_process, "_current", kept.pop() if kept else None)
    monkeypatch.setattr(pull_process, "_not_before_s", 0.0)
    begin()
    yield
    if isinstance(left := pull_process._current, PullProcess):
        left.end() if left.is_gone else kept.append(left)


def current() -> PullProcess:
    assert pull_process._current is not None
    return pull_process._current


def begin() -> None:
    """What is pulled before the process is ready is pulled here."""
    pull_process._not_before_s = 0.0
    pull_process._ready_process()
    wait_for(lambda: current().is_ready, "the process")


def test_pulls_side_by_side_get_each_their_own(recommender):
    recommender.lists.update({user: [user] for user in USERS})
    with ThreadPoolExecutor(8) as threads:
        pulls = list(threads.map(lambda user: pull_of(user, http={"url": recommender.url}), USERS))
    assert [as_lists(pull) for pull in pulls] == [{user: [user]} for user in USERS]
    assert not current().is_gone


@pytest.mark.parametrize(("limits", "run"), [({"max_in_flight": 3}, ""), ({}, "run")])
def test_pulls_stay_with_a_limited_one_of_their_host_and_with_those_of_their_run(
    limits, run, recommender, monkeypatch
):
    recommender.otherwise, elsewhere = "slow", list[str]()
    source = source_of(http={"url": recommender.url} | limits)
    monkeypatch.setattr(PullProcess, "pull", lambda *_: elsewhere.append("pulled"))
    with ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(PullProcess, "is_ready", False)
        first = threads.submit(source.pull, replace(request(*USERS, timeout_s=2), together=run))
        wait_for(lambda: recommender.asked, "the first request")
        monkeypatch.setattr(PullProcess, "is_ready", True)
        source.pull(replace(request("b", timeout_s=0.1), together=run))
        first.result()
    pull_of(
        "d", timeout_s=0.1, http={"url": recommender.url, "requests_a_day": 1}
    )  # its requests are counted here
    assert not elsewhere
    source.pull(request("c"))
    assert elsewhere == ["pulled"]


def test_an_error_is_raised_where_it_was_asked_for(recommender):
    with pytest.raises(SourceError, match="cannot read certificates from ca_file") as caught:
        pull_of("u", http={"url": recommender.url, "ca_file": "/nowhere.pem"})
    assert caught.value.permanent


def test_a_process_that_is_killed_costs_no_pull_and_another_one_is_begun(recommender, tmp_path):
    current().end()
    pull_process._current = None
    begin()  # just now
    recommender.behaviour, told = dict.fromkeys(USERS[20:], "slow"), list[PullProgress]()
    source = source_of(http={"url": recommender.url, "timeout": "5m"})
    kept_at = str(tmp_path / "answers")

    def are_kept() -> bool:
        return any(f'"{USERS[19]}"' in file.read_text() for file in tmp_path.iterdir())

    with ThreadPoolExecutor(1) as threads:
        asked = replace(
            request(*USERS), on_progress=told.append, answers_path=kept_at, answers_valid_s=864_000
        )
        pulling = threads.submit(source.pull, asked)
        wait_for(are_kept, "answers")
        wait_for(lambda: told and told[-1].words.startswith("20 of 40 users"), "progress told")
        killed = current()
        os.kill(killed._child.pid, signal.SIGKILL)
        recommender.behaviour.clear()
        lists = pulling.result().rankings
    assert len(lists) == len(USERS)
    assert lists.traces is not None
    # What was kept came at no moment of this run.
    assert set(lists.users[np.isnan(lists.traces.came_s)]) == {*USERS[:20]}
    assert recommender.attempts == Counter(USERS) + Counter(USERS[20:])
    wait_for(lambda: killed.is_gone, "its end, which comes after that of its sockets")
    assert len(as_lists(source.pull(request(*USERS)))) == len(USERS)
    assert pull_process._current is None, "not again and again"
    begin()
    assert len(as_lists(source.pull(request(*USERS)))) == len(USERS)


def test_a_process_that_is_stopped_is_given_up(recommender, monkeypatch):
    monkeypatch.setattr(pull_process, "_LATE_S", 1)
    stopped = current()
    stopped._child.send_signal(signal.SIGSTOP)
    with pytest.raises(SourceError, match="did not answer in time") as caught:
        source_of(http={"url": recommender.url}).pull(replace(request("u"), timeout_s=0.5))
    assert not caught.value.permanent
    wait_for(lambda: stopped.is_gone, "its end")
    assert as_lists(pull_of("u", k=1, http={"url": recommender.url})) == {"u": ["0"]}


def test_it_ends_with_its_parent_and_not_by_a_signal_that_all_are_sent(recommender):
    source = source_of(http={"url": recommender.url})
    source.pull(request("u"))
    child = current()._child
    child.send_signal(signal.SIGTERM)
    assert as_lists(source.pull(request("u", k=1))) == {"u": ["0"]}
    assert child.poll() is None
    ending = current()
    ending._control.shutdown(socket.SHUT_RDWR)  # as the parent's end does
    child.wait(60)
    wait_for(lambda: ending.is_gone, "its end, which comes after that of its sockets")


def test_only_pulls_of_several_runs_are_worth_a_process(monkeypatch):
    assert not connection_pool.is_busy()
    loop = connection_pool._PullLoop()
    monkeypatch.setattr(connection_pool, "_current", loop)
    loop.is_busy = True
    for under_way, is_worth_it in ((2, False), (4, True)):
        loop.under_way = under_way
        assert connection_pool.is_busy() is is_worth_it
    loop.end()
