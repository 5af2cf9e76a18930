"""What on-call types: acknowledge, resolve, silence, and what waits in the outbox."""

import getpass
import re
from pathlib import Path

import pytest

from commands import assert_refused, rankwatch, read_json
from factories import MINUTE, HeldClock
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.service.commands.receiver_test import send_test
from monitor.settings.loader import load_settings
from pipeline.alerting_run import store_run
from pipeline.test_delivery import REFUSED, FakeReceiver, open_sender
from servers.webhook import answer
from service.lists_world import write_world
from storage.worked import store_over


@pytest.mark.usefixtures("fired")
def test_alerts_lists_without_a_command_and_by_name():
    for arguments in ("", "ls", "feed", "ls feed"):
        assert "firing" in rankwatch(f"alerts {arguments}").stdout
    config = Path("rankwatch.yaml")
    config.write_text(config.read_text().replace("name: feed", "name: other"))
    assert "feed: not watched" in rankwatch("alerts").stdout


def drift():
    """State of the configuration's own rule, and who acknowledged it."""
    states = {each["alert"]: each for each in read_json("alerts --states")}
    return states["SimilarityLow"]["state"], states["SimilarityLow"]["acknowledged_by"]


@pytest.mark.usefixtures("fired")
def test_who_acknowledges_is_shown_until_the_alert_is_resolved_by_hand():
    acknowledge = "alerts ack feed --by anna --comment known"
    (done,) = read_json(acknowledge)
    assert (done["from_state"], done["to_state"]) == ("firing", "firing")
    assert done["reason"] == "acknowledged by anna: known"
    assert drift() == ("firing", "anna")
    assert re.search("firing +anna", rankwatch("alerts").stdout)
    assert_refused(f"""
        {acknowledge} | 2 | no firing alert matches, or anna has already acknowledged all that match
        alerts ack --alert Other --alert SimilarityHigh | 2 | rankwatch: no firing alert matches, or
        alerts ack --segment country=UK | 2 | rankwatch: no firing alert matches, or
        alerts resolve --segment country=UK | 2 | rankwatch: no firing alert matches: choose one from `rankwatch alerts`
    """)

    (done,) = read_json("alerts resolve --alert Other --alert SimilarityLow")
    assert (done["to_state"], done["reason"]) == ("quiet", f"resolved by {getpass.getuser()}")
    assert drift() == ("quiet", None)


@pytest.mark.usefixtures("fired")
def test_who_accepted_which_level_is_recorded_once_and_shown():
    accept = "accept feed --since 2024-01-08"
    (done,) = read_json(f"{accept} --by anna --comment v2")
    assert (done["slot"], done["reason"]) == ("2024-01-08T00:00:00Z", "accepted by anna: v2")
    assert read_json(f"{accept} --by ben") == [done]

    told = f"normal since 2024-01-08T00:00:00Z: accepted by anna: v2, {done['at'][:16]}"
    assert told in rankwatch("show feed").stdout
    assert "accepted by anna: v2" in rankwatch("alerts").stdout
    assert read_json(f"{accept} --undo") == [done]
    assert "accepted by" not in rankwatch("show feed").stdout


@pytest.mark.usefixtures("fired")
def test_what_cannot_be_accepted_silenced_backfilled_or_shown_is_refused_with_a_reason():
    assert_refused("""
        accept feed --since 2024-01-07 | 2 | no ok run of feed has the slot 2024-01-07T00:00:00Z: see `rankwatch runs feed`
        accept feed --since 2024-01-08 --undo | 2 | feed has no acceptance that begins with 2024-01-08T00:00:00Z
        accept feeds --since 2024-01-08 | 2 | no comparison named 'feeds': nothing is stored under this name
        accept feed --since 2999-01-08 | 2 | --since 2999-01-08 is in the future
        accept feed --since monday | 2 | 'monday' is no ISO 8601 time
        silence add alert --for 1h | 2 | 'alert' is no matcher
        silence add alert=x | 2 | give either --for or --until
        silence add alert=x --for 1h --until 2024-01-08 | 2 | give either --for or --until
        silence add alert=x --until 2024-01-08 | 2 | the silence would have no effect
        silence add alert=~( --for 1h | 2 | is no regular expression
        silence add --for 1h | 2 | Missing argument
        silence expire 9223372036854775808 | 2 | less than or equal
        backfill feed | 2 | has no `relevance:` in the configuration
        show feed --slot 2024-01-10 | 2 | 2024-01-10
        show feed --users 9223372036854775808 | 2 | less than or equal
    """)


@pytest.mark.usefixtures("fired")
def test_silences_are_added_listed_and_ended():
    (added,) = read_json(
        """silence add 'alert=~"Similarity.*"' segment=all --for 2h --by anna --comment known"""
    )
    assert (added["id"], added["author"], added["comment"]) == (1, "anna", "known")
    assert added["matchers"] == ['alert=~"Similarity.*"', "segment=all"]

    assert read_json("silence") == [added]
    assert "anna" in rankwatch("silence ls").stdout
    assert read_json("silence expire 1") == [{"expired": [1]}]
    assert read_json("silence ls") == []
    (ended,) = read_json("silence ls --all")
    assert ended["ends_at"] < added["ends_at"]
    assert_refused(
        "silence expire 1 | 2 | rankwatch: silence 1 has ended or does not exist: choose "
        "one from `rankwatch silence ls`"
    )


@pytest.fixture
def receivers(world, collector):
    """A configuration with two receivers."""
    hooks = "".join(
        f'  - webhook: {{url: "{collector.url}/canary", name: {name}}}\n'
        for name in ("hook", "other")
    )
    return write_world(world, "sqlite:///none.db", receivers=f"receivers:\n{hooks}")


@pytest.mark.usefixtures("receivers")
def test_every_receiver_gets_a_firing_and_its_end_marked_as_a_test(collector):
    sent = read_json("notify test")
    messages = ", ".join(f"{each['receiver']} {each['status']}" for each in sent)
    assert messages == "hook firing, other firing, hook resolved, other resolved"
    assert all(each["is_delivered"] and each["reason"] is None for each in sent)
    start, _, end, _ = (request.json() for request in collector.requests)
    assert (start["status"], end["status"]) == ("firing", "resolved")
    assert start["groupKey"] == end["groupKey"]
    assert start["commonLabels"]["test"] == "true"
    assert "THIS IS A TEST" in start["alerts"][0]["annotations"]["summary"]
    assert not Path("none.db").exists()


@pytest.mark.usefixtures("receivers")
def test_one_receiver_may_be_chosen_and_a_refusal_ends_with_5_after_all_messages(collector):
    assert rankwatch("notify test hook").returncode == 0
    assert len(collector.requests) == 2
    assert_refused("notify test pager | 2 | no receiver named 'pager': choose one of hook, other")

    collector.replies.append(answer(401))
    done = rankwatch("notify test")
    assert (done.returncode, len(collector.requests)) == (5, 2 + 3)
    assert "answered 401 Unauthorized: check its credentials" in done.stdout
    assert "canary" not in done.stdout
    write_world(Path.cwd(), "sqlite:///none.db")
    assert_refused("notify test | 2 | the configuration has no receivers")


def test_the_end_is_sent_after_the_wait_even_if_the_start_may_not_have_arrived(
    receivers, collector
):
    collector.replies.append(answer(500))
    waited = []
    settings = load_settings(receivers)
    sent = send_test(settings, "hook", HeldClock(), wait=MINUTE, pause=waited.append)
    outcomes = [(each.status, each.reason is None) for each in sent]
    assert outcomes == [("firing", False), ("resolved", True)]
    assert waited == [60.0]


def test_ls_shows_pending_deliveries_with_their_reasons_and_with_all_those_given_up(world):
    clock, receiver = HeldClock(), FakeReceiver(errors=[REFUSED])
    muted = NotificationPolicy(muted=frozenset({("home-feed", "SimilarityLow")}))
    with store_over(f"{world}/rankwatch.db") as store:
        store_run(store, 0.1, to=("fake", "other"))
        open_sender(store, receiver, clock, policy=muted).deliver_due()
        waits, untried = read_json("notify ls")
        names = ("receiver", "status", "attempts", "reason")
        assert [waits[name] for name in names] == ["fake", "held", 0, "dry run"]
        change = waits["transition"]
        assert (change["to_state"], change["at"]) == ("firing", "2024-01-08T00:00:00Z")
        assert change["reason"].startswith("mean of extended_tau is 0.1")
        assert [untried[name] for name in names] == ["other", "pending", 0, None]

        clock.pass_by(60)
        open_sender(store, receiver, clock).deliver_due()
        assert read_json("notify ls fake") == []
        assert "named 'pager': check the name" in rankwatch("notify ls pager").stdout
        assert re.search("(?s)fake answered 401.*", table := rankwatch("notify ls --all").stdout)
        assert table.index("dead") < table.index("pending")
