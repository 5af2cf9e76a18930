"""Scores of users, kept lists, scores of arms, and relevance that is added later."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import select

import factories
import published
from factories import DAY, HOUR, SLOT
from monitor.model.alerts import State
from monitor.model.errors import DatabaseError
from monitor.model.memory import MemoryRequest
from monitor.model.rankings import Arm
from monitor.model.runs import KeptLists, RunStatus, Scores
from monitor.storage import list_parquet, score_rows, user_scores as per_user
from monitor.storage.tables.run_tables import kept_lists
from storage.worked import (
    LATER,
    claimed,
    execute_sql,
    newest,
    prune,
    record,
    run,
    scores,
    select_rows,
    user_scores,
)


def lists(baseline, candidate, **segments):
    positions = {"all": list(range(len(baseline)))} | segments
    return KeptLists(
        baseline=factories.rankings(baseline),
        candidate=factories.rankings(candidate),
        segments={name: np.array(rows, dtype=np.intp) for name, rows in positions.items()},
    )


ONE = lists({"u1": [1, 2], "u2": [3]}, {"u1": [2], "u2": [3, 9]}, **{"country=UK": [1]})

OTHER = lists({"u9": [4]}, {"u9": [5]})


def plain(kept):
    """All parts of the lists, as values that can be compared."""
    arms = [
        (list(arm.users), list(arm.items), type(arm.items), repr(arm.offsets), repr(arm.scores))
        for arm in (kept.baseline, kept.candidate)
    ]
    return arms, [(name, rows.tolist()) for name, rows in kept.segments.items()]


def assert_same(found, wanted):
    assert plain(found) == plain(wanted)


def memory_of(store, before, comparison="home-feed", k=10):
    request = MemoryRequest(
        comparison=comparison, config_hash="hash", before=before, wants_last_lists=True, k=k
    )
    return store.history.memory_of(request)


def kept(store, slot=SLOT, **changes):
    """Store an ok run that keeps its lists. Returns its number."""
    return run(store, slot, **{"lists": ONE, "catalogue_size": 7} | changes)


def with_lists(store):
    return {run_id for (run_id,) in select_rows(store, select(kept_lists.c.run_id))}


ITEMS = st.sampled_from([st.integers(-(2**63), 2**63 - 1), st.text("aé0", min_size=1)])


@given(
    users=ITEMS.flatmap(
        lambda items: st.lists(
            st.tuples(*[st.lists(items, max_size=4)] * 2, st.booleans()), max_size=9
        )
    ),
    step=st.integers(1, 4),
    is_scored=st.booleans(),
)
@settings(max_examples=25)
def test_lists_are_read_back_from_any_number_of_pieces(users, step, is_scored):
    baseline = {f"u{number}": user[0] for number, user in enumerate(users)}
    candidate = {f"u{number}": user[1] for number, user in enumerate(users)}
    chosen = [number for number, user in enumerate(users) if user[2]]
    wanted = lists(baseline, candidate, **{"country=\u2400\u00e9": chosen})
    if is_scored:
        scores = np.where(np.arange(len(wanted.baseline.items)) % 3, 0.5, np.nan)
        wanted = replace(wanted, baseline=replace(wanted.baseline, scores=scores))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_parquet, "PIECE_USERS", step)
        pieces = _pieces(wanted)
    found = list_parquet.unpack(pieces)

    assert len(pieces[Arm.BASELINE]) == max(1, -(-len(users) // step))
    assert_same(found, wanted)


def _pieces(wanted=ONE):
    pieces: Any = {arm: [] for arm in Arm}
    for piece in list_parquet.pack(wanted):
        assert piece.part == len(pieces[piece.arm])
        pieces[piece.arm].append(piece.payload)
    return pieces


def test_damaged_lists_are_rejected():
    good = _pieces()
    baseline, candidate = good.values()
    (piece,) = baseline
    places = (9, 40, len(piece) - 9)
    for damaged in (
        {Arm.BASELINE: baseline},
        {Arm.BASELINE: candidate, Arm.CANDIDATE: baseline},
        good | {Arm.CANDIDATE: _pieces(OTHER)[Arm.CANDIDATE]},
        *(good | {Arm.BASELINE: [piece[:at] + b"x" + piece[at + 1 :]]} for at in places),
    ):
        with pytest.raises((ValueError, OSError), match=r"."):
            list_parquet.unpack(damaged)


def test_damaged_lists_are_an_error_that_names_the_solution(store):
    run_id = kept(store)
    execute_sql(store, kept_lists.update().values(payload=b"PAR1 this is no Parquet PAR1"))

    with pytest.raises(
        DatabaseError, match=rf"stored lists of run {run_id} are damaged .*run its slot again"
    ):
        store.history.kept_lists(run_id)
    assert store.history.kept_lists(run_id + 1) is None
    (said,) = memory_of(store, SLOT + DAY).unreadable
    assert said.startswith(f"lists of the last run: the stored lists of run {run_id} are damaged")


def test_the_last_lists_are_from_the_newest_earlier_ok_run_with_lists(store):
    waiting = {"labels_until": SLOT + 30 * DAY}
    kept(store, lists=OTHER, **waiting)
    kept(store, LATER, **waiting)
    kept(store, SLOT + 2 * HOUR, lists=None)
    kept(store, SLOT + 3 * HOUR, status=RunStatus.INSUFFICIENT, **waiting)

    assert memory_of(store, SLOT).last_lists is None
    assert memory_of(store, SLOT + DAY, "other").last_lists is None
    assert memory_of(store, SLOT + DAY, k=11).last_lists is None
    for before, wanted in ((LATER, OTHER), (SLOT + DAY, ONE)):
        memory = memory_of(store, before)
        assert not memory.unreadable
        assert_same(memory.last_lists, wanted)


def test_a_user_is_found_in_every_piece(store, monkeypatch):
    monkeypatch.setattr(list_parquet, "PIECE_USERS", 2)
    users = {f"u{number}": [number] for number in range(8)}
    run_id = kept(store, lists=lists(users, users))
    for number in (0, 5, 7):
        assert store.pages.user_lists(run_id, f"u{number}").candidate == (str(number),)
    assert store.pages.user_lists(run_id, "v") is None


def test_only_the_newest_lists_are_kept_if_no_relevance_is_expected(store):
    kept(store)
    second = kept(store, LATER)
    assert with_lists(store) == {second}

    first_again = kept(store)
    assert with_lists(store) == {first_again, second}  # a replay may continue from there
    assert prune(store) == {"kept_lists": 2}
    assert with_lists(store) == {second}


def test_lists_from_before_an_alert_are_kept_while_it_lasts(store):
    """The lists of later runs are compared with these lists, however long the alert fires."""

    def moved(hour, was, now):
        slot = SLOT + hour * HOUR
        alert = factories.state(state=now, since=LATER, judged_slot=slot)
        change = factories.transition(from_state=was, to_state=now, slot=slot)
        return {"states": (alert,), "transitions": () if was is now else (change,)}

    healthy = kept(store)
    for hour, was in ((1, State.QUIET), (2, State.PENDING), (3, State.PENDING)):
        broken = kept(store, SLOT + hour * HOUR, lists=OTHER, **moved(hour, was, State.PENDING))
        assert with_lists(store) == {healthy, broken}
    assert not prune(store)
    memory = memory_of(store, SLOT + 9 * HOUR)
    assert_same(memory.last_lists, OTHER)
    assert_same(memory.former_lists, ONE)
    assert memory.former_slot == SLOT

    healed = kept(store, SLOT + 4 * HOUR, **moved(4, State.PENDING, State.QUIET))
    assert with_lists(store) == {healed}
    memory = memory_of(store, SLOT + 9 * HOUR)
    assert memory.former_lists is memory.last_lists


def test_lists_are_kept_while_relevance_may_arrive_and_the_newest_afterwards(store):
    early = SLOT - 30 * DAY
    ids = [kept(store, SLOT + day * DAY, labels_until=SLOT + (day + 3) * DAY) for day in range(3)]

    def left(now):
        prune(store, scores=early, now=now)
        return with_lists(store)

    assert left(SLOT + 2 * DAY) == set(ids)
    assert left(SLOT + 4 * DAY) == set(ids[2:])
    assert left(SLOT + 9 * DAY) == set(ids[2:])
    assert prune(store, lists=SLOT + 9 * DAY)["kept_lists"] == 2
    assert not with_lists(store)


def test_arm_scores_are_read_back_in_order_and_undefined_scores_as_none(store):
    found = (
        published.arm_score(metric="novelty", value=None, n=0),
        published.arm_score(arm=Arm.CANDIDATE, value=float("nan")),
        published.arm_score(),
        published.arm_score(segment="country=UK", value=np.float64(1.0)),
    )
    run_id = kept(store, arm_scores=found)

    assert record(store, run_id).arm_scores == (found[0], replace(found[1], value=None), *found[2:])
    assert newest(store).arm_scores == record(store, run_id).arm_scores


def test_a_rerun_replaces_lists_arm_scores_and_labels(store):
    run_id = kept(
        store, arm_scores=(published.arm_score(),), labels_until=SLOT + DAY, is_labelled=True
    )
    assert record(store, run_id).labelled_at is not None

    again = kept(store, lists=OTHER, labels_until=SLOT + 2 * DAY, catalogue_size=8)

    assert again == run_id
    assert_same(store.history.kept_lists(run_id), OTHER)
    run = record(store, run_id)
    assert not run.arm_scores
    assert run.labelled_at is None
    assert run.labels_until == SLOT + 2 * DAY
    assert run.catalogue_size == 8


def test_runs_that_can_still_be_labelled_are_listed(store):
    waits = {"labels_until": SLOT + 9 * DAY}
    first = kept(store, **waits)
    kept(store, LATER, **waits, is_labelled=True)
    kept(store, SLOT + 2 * HOUR, **waits, status=RunStatus.INSUFFICIENT)
    kept(store, SLOT + 3 * HOUR)
    kept(store, SLOT + 4 * HOUR, **waits)
    claimed(store, SLOT + 4 * HOUR, rerun=True)
    last = kept(store, SLOT + 5 * HOUR, **waits)

    def awaiting(since, comparison="home-feed"):
        found = store.runs.awaiting_relevance(comparison, since=since)
        assert all(run.labels_until and run.labelled_at is None for run in found)
        return [run.id for run in found]

    assert awaiting(SLOT) == [first, last]
    assert awaiting(LATER) == [last]
    assert not awaiting(SLOT, "other")
    assert newest(store).unlabelled == 3, "the run that runs again counts too"


def relevant(**changes):
    return factories.summary(metric="ndcg", **changes)


def add_labels(store, run, *added):
    return store.runs.store_relevance(run, summaries=added, scores=None, at=LATER)


def test_labels_are_added_to_the_other_summaries(store):
    run_id = kept(store, labels_until=SLOT + DAY)
    before = record(store, run_id).summaries
    added = (relevant(), relevant(segment="activity=new", n=2))
    assert add_labels(store, record(store, run_id), *added)
    assert record(store, run_id).summaries == before + added
    assert record(store, run_id).labelled_at == LATER
    assert not store.runs.awaiting_relevance("home-feed", since=SLOT)


def test_a_rerun_does_not_get_the_labels_of_its_old_lists(store):
    run_id = kept(store, labels_until=SLOT + DAY)
    old = record(store, run_id)

    claimed(store, rerun=True)
    for each in (record(store, run_id), old):
        assert not add_labels(store, each, relevant())
    left = record(store, run_id)
    assert left.summaries == old.summaries
    assert left.labelled_at is None


NAN = float("nan")


def test_batches_in_any_order_and_many_metrics_are_read_back_without_loss(store, monkeypatch):
    monkeypatch.setattr(score_rows, "CHUNK_USERS", 7)
    draw = np.random.default_rng(7)
    users = [
        "u\u2400",
        "a" * 600,
        "\\N\t\r\n\\.\n",
        *(f"u{number:02}" for number in range(20)),
        "\u00fc\U0001f600",
    ]
    values = {
        f"m{number}": np.where(draw.random(len(users)) < 0.2, NAN, draw.normal(size=len(users)))
        for number in range(11)
    }
    values["m10"][:] = NAN
    rows = [[5, 3, 22, 1], list(range(6, 22)), [], [0, 2, 4, 23]]
    batches = [
        Scores(
            users=pd.Index([users[row] for row in part]),
            by_metric={metric: column[part] for metric, column in values.items()},
        )
        for part in rows
    ]

    found = store.history.run_scores(run(store, SLOT, scores=batches), list(values))

    order = [users.index(user) if len(user) < 70 else 1 for user in found.users]
    assert sorted(order) == list(range(len(users)))
    for metric, column in values.items():
        np.testing.assert_array_equal(found.by_metric[metric], column[order])


def test_metrics_that_are_measured_later_replace_only_their_own_scores(store):
    measured = {"tau": {"a": 0.1, "b": 0.2}, "rbo": {"a": 0.3, "b": 0.4}}
    run_id = run(store, SLOT, scores=scores(measured))
    last = {"rbo": {"b": 0.7}, "ndcg": {"b": NAN}}
    for later in ({"ndcg": {"a": 0.5}}, {"ndcg": {"a": 0.6}}, last):
        with store.database.write() as connection:
            per_user.replace_scores(connection, run_id, SLOT, scores(later))

    assert len(select_rows(store, "SELECT * FROM scores")) == 3
    of_b = [("ndcg", None), ("rbo", 0.7), ("tau", 0.2)]
    assert [row[1:] for row in user_scores(store, "a")] == [("tau", 0.1)]
    assert [row[1:] for row in user_scores(store, "b")] == of_b


def test_a_run_without_scores_of_a_metric_is_read_back_as_empty(store):
    without_users = run(store, LATER, scores=scores({"tau": {}}))
    run_id = run(store, SLOT, scores=scores({"tau": {"a": 0.5}}))
    for number, metrics in ((without_users, ["tau"]), (run_id, ["rbo"]), (run_id, [])):
        nothing = store.history.run_scores(number, metrics)
        assert len(nothing.users) == 0
        assert not dict(nothing.by_metric)
