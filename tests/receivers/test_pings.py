import threading
from collections import Counter
from contextlib import contextmanager

import pytest

from factories import DAY, SLOT, claim
from logs import captured
from monitor.receivers import pings as module
from monitor.receivers.pings import PingOptions, RunPings
from servers.healthchecks import CHECK, signals_of
from servers.webhook import answer, disconnect


@pytest.fixture
def logged(monkeypatch):
    return captured(monkeypatch, module)


@contextmanager
def pinging(collector, path=CHECK, on_outcome=lambda *_: None, **options):
    """Pings to the collector that are sent by the end of the block. No time passes between two attempts."""
    chosen = PingOptions.model_validate({"url": collector.url + path, **options})
    pings = RunPings(chosen, rest=lambda _: False, on_outcome=on_outcome)
    yield pings
    pings.close(10.0)


def held_until(go_on):
    """An answer that comes when it may."""

    def reply(collector, sock):
        assert go_on.wait(30)
        answer(200)(collector, sock)

    return reply


def test_a_run_pings_its_start_and_its_end_under_one_uuid_and_a_failure_with_its_reason_short_and_on_one_line(
    collector,
):
    with pinging(collector) as pings:
        pings.run_started(claim())
        pings.run_finished(claim(), None)
        pings.run_finished(claim(), "failed: no such\nfile " + "x" * 1_000_000)
    start, end, failed = signals_of(collector.requests)
    assert (start.kind, end.kind, end.body, failed.kind) == ("start", "success", "", "fail")
    assert start.rid == end.rid
    assert failed.body.startswith("failed: no such file xxx")
    assert len(failed.body) <= 1000


def test_each_attempt_slot_and_comparison_has_a_uuid_of_its_own(collector):
    runs = [claim(), claim(attempt=2), claim(slot=SLOT + DAY), claim(comparison="other")]
    with pinging(collector) as pings:
        for run in runs:
            pings.run_started(run)
    assert len({signal.rid for signal in signals_of(collector.requests)}) == 4


def test_only_the_named_comparisons_are_pinged_and_a_query_of_the_url_is_kept(collector):
    with pinging(collector, f"{CHECK}/?create=1", comparisons=["other"]) as pings:
        pings.run_started(claim())
        pings.run_started(claim(comparison="other"))
    (request,) = collector.requests
    assert request.path.startswith(f"{CHECK}/start?create=1&rid=")


@pytest.mark.parametrize("reply", [answer(500), answer(429), disconnect])
def test_a_ping_is_tried_three_times_and_logged_without_the_url_where_it_did_not_get_through(
    collector, reply, logged
):
    collector.replies.extend([reply] * 5)  # the second one gets through
    with pinging(collector) as pings:
        pings.run_started(claim())
        pings.run_finished(claim(), None)
    assert len(collector.requests) == 6
    (entry,) = logged.entries
    names = ("event", "ping", "log_level")
    assert [entry[name] for name in names] == ["ping not sent", "ping", "warning"]
    assert CHECK.rpartition("/")[2] not in str(entry)


def test_a_server_that_hangs_delays_no_run_the_newest_pings_are_kept_and_a_wrong_url_is_not_tried_again(
    collector, logged
):
    heard = []
    go_on = threading.Event()
    collector.replies.extend([answer(200), answer(404), held_until(go_on)])
    with pinging(collector, name="hc", on_outcome=lambda *outcome: heard.append(outcome)) as pings:
        for attempt in range(3):
            pings.run_started(claim(attempt=attempt))
        collector.wait_for(3)
        for attempt in range(3, 103):
            pings.run_finished(claim(attempt=attempt), None)
        go_on.set()
    assert [signal.kind for signal in signals_of(collector.requests)[3:]] == ["success"] * 64
    wrong = f"hc at {collector.url} answered 404 Not Found: check its URL"
    assert wrong in {entry.get("reason") for entry in logged.entries}
    assert [entry["event"] for entry in logged.entries].count(
        "ping dropped: too many pings are waiting"
    ) == 36
    assert heard[:2] == [("hc", "sent"), ("hc", "failed")]
    assert Counter(heard) == {("hc", "sent"): 66, ("hc", "failed"): 1, ("hc", "dropped"): 36}


def test_closing_waits_no_longer_than_asked_and_nothing_is_sent_afterwards(collector):
    go_on = threading.Event()
    collector.default = held_until(go_on)
    with pinging(collector) as pings:
        pings.run_started(claim())
        collector.wait_for(1)
        pings.close(0.0)
        pings.run_finished(claim(), None)
        go_on.set()
    assert len(collector.requests) == 1
    assert not threads()


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "ping-ping"]


def test_pings_without_a_run_start_no_thread_and_do_not_show_the_url(collector):
    with pinging(collector) as pings:
        assert not threads()
        assert CHECK not in repr(pings)
