import threading
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta

import pytest

from factories import SLOT, claim
from logs import captured
from monitor.receivers import PingOptions
from monitor.receivers import pings as module
from monitor.receivers.pings import RunPings
from servers.healthchecks import CHECK, signals_of
from servers.webhook import answer, disconnect

CLOSING_S = 10.0


@pytest.fixture
def logged(monkeypatch):
    return captured(monkeypatch, module)


@contextmanager
def pinging(url, on_outcome=lambda *_: None, **options):
    """Rests take no time."""
    man = RunPings(
        PingOptions.model_validate({"url": url, **options}),
        rest=lambda _: False,
        on_outcome=on_outcome,
    )
    yield man
    man.close(CLOSING_S)


def held_until(go_on):
    """An answer that comes when it may."""

    def reply(collector, sock):
        assert go_on.wait(30)
        answer(200)(collector, sock)

    return reply


def test_a_run_pings_its_start_and_its_end_under_one_uuid_and_a_failure_with_its_reason_short_and_on_one_line(
    collector,
):
    with pinging(collector.url + CHECK) as man:
        man.run_started(claim())
        man.run_finished(claim(), None)
        man.run_finished(claim(), "failed: no such\nfile " + "x" * 1_000_000)
    start, end, failed = signals_of(collector.requests)
    assert (start.kind, end.kind, end.body, failed.kind) == ("start", "success", "", "fail")
    assert start.rid == end.rid
    assert failed.body.startswith("failed: no such file xxx")
    assert len(failed.body) <= 1000


def test_each_attempt_slot_and_comparison_has_a_uuid_of_its_own(collector):
    runs = [
        claim(),
        claim(attempt=2),
        claim(slot=SLOT + timedelta(days=1)),
        claim(comparison="other"),
    ]
    with pinging(collector.url + CHECK) as man:
        for run in runs:
            man.run_started(run)
    assert len({signal.rid for signal in signals_of(collector.requests)}) == 4


def test_only_the_named_comparisons_are_pinged_and_a_query_of_the_url_is_kept(collector):
    with pinging(f"{collector.url}{CHECK}/?create=1", comparisons=["other"]) as man:
        man.run_started(claim())
        man.run_started(claim(comparison="other"))
    (request,) = collector.requests
    assert request.path.startswith(f"{CHECK}/start?create=1&rid=")


@pytest.mark.parametrize("reply", [answer(500), answer(429), disconnect])
def test_a_ping_is_tried_three_times_and_logged_without_the_url_where_it_did_not_get_through(
    collector, reply, logged
):
    collector.replies.extend([reply] * 5)  # the second one gets through
    with pinging(collector.url + CHECK) as man:
        man.run_started(claim())
        man.run_finished(claim(), None)
    assert len(collector.requests) == 6
    (entry,) = logged.entries
    assert (entry["event"], entry["ping"], entry["log_level"]) == (
        "ping not sent",
        "ping",
        "warning",
    )
    assert CHECK.rpartition("/")[2] not in str(entry)


def test_a_url_that_is_wrong_is_not_tried_again(collector, logged):
    collector.default = answer(404)
    with pinging(collector.url + CHECK) as man:
        man.run_started(claim())
    assert len(collector.requests) == 1
    assert (
        logged.entries[0]["reason"]
        == f"ping at {collector.url} answered 404 Not Found: check its URL"
    )


def test_a_server_that_hangs_holds_up_no_run_the_newest_pings_win_and_the_outcome_of_each_is_reported(
    collector, logged
):
    heard = []
    go_on = threading.Event()
    collector.replies.extend([answer(200), answer(404), held_until(go_on)])
    with pinging(
        collector.url + CHECK, name="hc", on_outcome=lambda *outcome: heard.append(outcome)
    ) as man:
        for attempt in range(3):
            man.run_started(claim(attempt=attempt))
        collector.wait_for(3)
        for attempt in range(3, 103):
            man.run_finished(claim(attempt=attempt), None)
        go_on.set()
    assert [signal.kind for signal in signals_of(collector.requests)[3:]] == ["success"] * 64
    assert [entry["event"] for entry in logged.entries].count(
        "ping dropped: too many pings are waiting"
    ) == 36
    assert heard[:2] == [("hc", "sent"), ("hc", "failed")]
    assert Counter(heard) == {("hc", "sent"): 66, ("hc", "failed"): 1, ("hc", "dropped"): 36}


def test_closing_waits_no_longer_than_asked_and_nothing_is_sent_afterwards(collector):
    go_on = threading.Event()
    collector.default = held_until(go_on)
    with pinging(collector.url + CHECK) as man:
        man.run_started(claim())
        collector.wait_for(1)
        man.close(0.0)
        man.run_finished(claim(), None)
        go_on.set()
    assert len(collector.requests) == 1
    assert not threads()


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "ping-ping"]


def test_a_man_that_never_heard_of_a_run_has_no_thread():
    with pinging("https://hc.test/canary") as man:
        assert not threads()
        assert "canary" not in repr(man)
