from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

import factories
from factories import DAY, SECOND, SLOT, comparison, rule, transition
from monitor.alerts.state_machine import INSTALLATION_LABEL, Evaluation, advance, retire_alerts
from monitor.model.alerts import Outcome, State, Verdict
from monitor.model.rules import Severity
from tables import cells

QUIET = State.QUIET
PENDING = State.PENDING
FIRING = State.FIRING
BAND = rule(threshold=0.35, resolve_at=0.4, for_runs=2)
HELD = replace(BAND, resolve_after=2)

BREACH = Verdict(outcome=Outcome.BREACH, reason="low", value=0.2, users=100)
OK = Verdict(outcome=Outcome.OK, reason="fine", value=0.5, users=100, is_recovered=True)
NO_DATA = Verdict(outcome=Outcome.NO_DATA, reason="nobody")
VERDICTS = {
    "breach": BREACH,
    "ok": OK,
    "ok_in_band": replace(OK, value=0.38, is_recovered=False),
    "no_data": NO_DATA,
    "too_few": replace(NO_DATA, outcome=Outcome.TOO_FEW, users=3),
    "error": replace(NO_DATA, outcome=Outcome.ERROR),
    "given_up": replace(NO_DATA, is_ignored=True),
}


def look(day, segment="all"):
    slot = SLOT + day * DAY
    return Evaluation(comparison="home-feed", segment=segment, slot=slot, at=slot + 5 * SECOND)


def walk(*verdicts, by=BAND):
    state = None
    transitions = []
    for day, verdict in enumerate(verdicts):
        state, transition = advance(by, verdict, state, look(day))
        transitions += [transition] if transition else []
    assert state is not None
    return state, transitions


STARTS = {
    "none": (),
    "quiet": (OK,),
    "pending": (BREACH,),
    "firing": (BREACH, BREACH),
    "recovered": (BREACH, BREACH, OK),
}
TABLE = """
           breach     ok        ok_in_band  no_data    too_few    error      given_up
none       pending 1  quiet 0   quiet 0     quiet 0    quiet 0    quiet 0    quiet 0
quiet      pending 1  quiet 0   quiet 0     quiet 0    quiet 0    quiet 0    quiet 0
pending    firing 0   quiet 0   quiet 0     pending 1  pending 1  pending 1  quiet 0
firing     firing 0   firing 1  firing 0    firing 0   firing 0   firing 0   quiet 0
recovered  firing 0   quiet 0   firing 0    firing 1   firing 1   firing 1   quiet 0
"""
"""Under a rule with ``for: 2`` and ``resolve_after: 2``: the state and its streak after each verdict."""
NAMES, *ROWS = cells(TABLE)
CELLS = [
    (start, verdict, cell) for start, *row in ROWS for verdict, cell in zip(NAMES, row, strict=True)
]


@pytest.mark.parametrize("start, verdict, cell", CELLS)
def test_each_state_meets_each_verdict(start, verdict, cell):
    before = walk(*STARTS[start], by=HELD)[0] if STARTS[start] else None
    was = before.state if before else QUIET
    now = look(5)
    is_end_unseen = verdict == "given_up" and was is not QUIET
    is_half_way = (start, verdict) == ("firing", "ok")
    more = (
        "; the alert ended, but was not seen to recover" * is_end_unseen
        + "; it is still firing, and ends after 1 more such run" * is_half_way
    )
    given = replace(VERDICTS[verdict], reason=f"{VERDICTS[verdict].reason}{more}")

    after, transition = advance(HELD, VERDICTS[verdict], before, now)

    state = State(cell.partition(" ")[0])
    assert f"{after.state} {after.streak}" == cell
    assert after.judged_slot == now.slot
    assert after.outcome == given.outcome
    assert after.reason == given.reason
    assert after.value == given.value
    assert after.users == given.users
    assert (after.dedup_key is not None) == (state is FIRING)
    assert after.since == (before.since if before and state is was else now.slot)
    assert (transition is None) == (state is was)
    if transition is not None:
        assert transition.from_state == was
        assert transition.to_state == state
        assert transition.slot == now.slot
        assert transition.at == now.at
        assert transition.reason == given.reason


def test_the_key_of_a_firing_follows_from_its_segment_and_slot_and_its_installation():
    def key(segment="all", installation="", labels=None):
        looked = replace(look(1, segment), installation=installation)
        state, _ = advance(rule(for_runs=1, labels=labels or {}), BREACH, None, looked)
        return state.dedup_key

    shop = {INSTALLATION_LABEL: "shop-eu"}
    named = key(installation="b", labels=shop)
    assert len({key(), key("x=y"), key(installation="a"), key(installation="b"), named}) == 5
    # Where there is a name it alone counts.
    assert key(installation="a", labels=shop) == named


def test_a_changed_rule_keeps_what_fires_firing_and_sends_no_new_page():
    before, _ = walk(BREACH, BREACH)
    changed = rule(threshold=0.1, resolve_at=0.3, for_runs=5, severity=Severity.INFO)

    after, transition = advance(changed, replace(BREACH, value=0.05), before, look(2))
    ended, end = advance(changed, OK, after, look(3))

    assert transition is None
    assert after.threshold == 0.1
    assert after.state is FIRING
    assert after.since == before.since
    assert after.dedup_key == before.dedup_key
    assert after.severity == Severity.CRITICAL
    assert ended.severity == Severity.INFO
    assert end is not None
    assert end.severity == Severity.CRITICAL
    assert end.dedup_key == before.dedup_key


def test_a_for_lowered_while_pending_fires_at_the_next_breach():
    before, _ = walk(BREACH, BREACH, by=rule(for_runs=9))
    assert before.state == PENDING
    assert before.streak == 2
    after, transition = advance(rule(for_runs=2), BREACH, before, look(2))
    assert after.state == FIRING
    assert after.streak == 0
    assert transition is not None
    assert transition.since == SLOT


@given(
    st.lists(st.sampled_from(list(VERDICTS.values())), min_size=1, max_size=30),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_starts_and_ends_alternate_with_the_same_key_and_old_slots_change_nothing(
    verdicts, for_runs, resolve_after
):
    watched = replace(BAND, for_runs=for_runs, resolve_after=resolve_after)
    state, transitions = walk(*verdicts, by=watched)
    announced = [transition for transition in transitions if transition.is_announced]
    starts = announced[::2]
    ends = announced[1::2]
    assert all(start.is_start for start in starts)
    assert all(end.is_end for end in ends)
    assert [(start.dedup_key, start.slot) for start in starts[: len(ends)]] == [
        (end.dedup_key, end.since) for end in ends
    ]
    assert len({start.dedup_key for start in starts}) == len(starts)
    assert state.dedup_key == (starts[-1].dedup_key if len(starts) > len(ends) else None)
    for verdict in VERDICTS.values():
        assert advance(watched, verdict, state, look(len(verdicts) - 2)) == (state, None)


AGAIN = """
breach            error   quiet    0
breach            ok      quiet    0
breach            breach  pending  1
error             breach  pending  1
error             ok      quiet    0
breach breach     error   firing   0
breach breach     ok      firing   1
breach error      breach  firing   0
breach breach ok  ok      firing   1
"""
"""Verdicts of earlier slots and of the newest one, that of its second attempt, and the state."""


@pytest.mark.parametrize("earlier, again, state, streak", cells(AGAIN))
def test_the_last_attempt_of_the_newest_slot_decides_and_no_breach_counts_twice(
    earlier, again, state, streak
):
    earlier = earlier.split()
    before, _ = walk(*(VERDICTS[each] for each in earlier), by=HELD)
    after, transition = advance(HELD, VERDICTS[again], before, look(len(earlier) - 1))
    assert after.state == state
    assert after.streak == int(streak)
    assert after.outcome == again
    assert (transition is None) == (before.state is after.state)


NOW = SLOT + 3 * DAY


def state(**changes):
    return factories.state(**{"state": FIRING, "dedup_key": "key"} | changes)


def test_a_firing_whose_rule_is_gone_ends_under_the_key_and_labels_of_its_start():
    begun = transition(dedup_key="key", metric="rbo(p=0.9)", labels={"team": "x"})
    starts = [
        transition(metric="overlap"),
        transition(segment="country=UK", metric="jaccard"),
        begun,
    ]

    (end,) = retire_alerts([state()], starts, [comparison(rules=())], at=NOW)

    assert end.from_state == FIRING
    assert end.to_state == QUIET
    assert end.is_announced
    assert end.dedup_key == "key"
    assert end.metric == "rbo(p=0.9)"
    assert end.labels == {"team": "x"}
    assert end.severity is Severity.CRITICAL
    assert end.slot == NOW
    assert end.at == NOW
    assert end.since == SLOT
    assert end.value is None
    assert end.reason == "rule removed from the configuration"


def test_a_removed_comparison_ends_its_alerts_in_order_and_its_pending_alerts_silently():
    pending = state(segment="country=UK", state=PENDING, dedup_key=None)
    quiet = state(segment="x=y", state=QUIET)
    ends = retire_alerts([state(), pending, quiet], [], [comparison(name="other")], at=NOW)
    assert [(end.segment, end.from_state, end.is_announced) for end in ends] == [
        ("all", FIRING, True),
        ("country=UK", PENDING, False),
    ]
    assert {end.reason for end in ends} == {"comparison removed from the configuration"}


def test_a_segment_is_ended_once_the_rule_no_longer_names_it_and_not_for_being_absent():
    states = [state(segment="country=UK"), state(segment="country=DE"), state()]

    def ended(segments):
        ends = retire_alerts(states, [], [comparison(rules=(rule(segments=segments),))], at=NOW)
        return [(end.segment, end.reason) for end in ends]

    said = "segment removed from the rule in the configuration"
    assert not ended("each")
    assert ended(("country=DE",)) == [("country=UK", said), ("all", said)]
    assert ended("all") == [("country=UK", said), ("country=DE", said)]
