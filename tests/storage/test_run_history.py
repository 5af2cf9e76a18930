"""Earlier runs as rules learn from them: splits and explanations too, and which runs count as healthy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

import factories
import published
from factories import DAY, SLOT
from monitor.model.alerts import Expectation, State
from monitor.model.explanation import (
    DropPart,
    ExposedItem,
    FaultKind,
    Finding,
    PartAmount,
    PartMeans,
    Split,
)
from monitor.model.memory import MemoryRequest
from monitor.model.model_versions import follow_models
from monitor.model.rankings import Arm
from monitor.model.rules import judged_series
from monitor.model.runs import RunStatus, Watermark
from monitor.storage import run_memory
from monitor.storage.tables.run_tables import lessons
from storage import worked

LOW = factories.rule(alert="Low", segments="each")
FULL = Expectation(
    alert="Low",
    segment="all",
    runs=9,
    expected=0.5,
    limit=0.4,
    z=1.5,
    evidence=12.0,
    evidence_limit=1e4,
)
LEARNING = Expectation(alert="Low", segment="country=DE", runs=3)
SEEN = (
    replace(
        FULL, series=judged_series(LOW), judged=0.1 + 0.2, error=1e-17, lost=0.125, steady=1.25
    ),
    replace(LEARNING, series=judged_series(LOW), judged=0.25),
)


def stored(store, day, *, mean=0.5, config_hash="hash", **changes):
    summaries = (factories.summary(mean=mean),)
    return worked.run(store, at(day), summaries=summaries, config_hash=config_hash, **changes)


def at(day):
    return SLOT + day * DAY


def recall(store, day, *rules, runs=5, **changes):
    """What a run of that day remembers."""
    series = {rule.alert: judged_series(rule) for rule in rules}
    request = MemoryRequest(
        comparison="home-feed", config_hash="hash", before=at(day), runs=runs, series=series
    )
    return store.history.memory_of(replace(request, **changes))


def test_what_was_expected_is_read_back_as_it_was_stored_and_goes_when_the_slot_is_run_again(store):
    stored(store, 0, expectations=SEEN)
    assert worked.newest(store).expectations == (FULL, LEARNING)
    taught = recall(store, 1, LOW).past[0].lessons
    assert taught.topics == (("Low", judged_series(LOW), ("all", "country=DE")),)
    told = [[0.1 + 0.2, 0.25], [1e-17, np.nan], [1.5, np.nan], [0.125, 0.0], [1.25, np.nan]]
    np.testing.assert_array_equal(taught.numbers, told)

    with store.database.write() as connection:
        connection.execute(lessons.update().values(numbers=b"short"))
    (damaged,) = recall(store, 1, LOW).past
    assert (damaged.lessons, len(damaged.summaries)) == (None, 1)

    worked.run(store, SLOT)
    assert worked.newest(store).expectations == ()
    assert recall(store, 1).past[0].lessons is None


def test_runs_of_another_configuration_do_not_teach_and_are_told_as_learning_anew(store):
    stored(store, 0, config_hash="former")
    stored(store, 1)

    other = recall(store, 2)
    assert ([run.slot for run in other.past], other.anew_since) == ([at(1)], at(1))
    assert recall(store, 2, config_hash="new").anew_since == at(2)
    stored(store, 2, config_hash="new", status=RunStatus.FAILED)
    assert recall(store, 3, config_hash="new").anew_since == at(2)


def test_memory_knows_the_last_run_that_ended_ok_whatever_its_configuration(store):
    models = follow_models(None, {Arm.CANDIDATE: {"v12": 9}}, SLOT)
    stored(store, 0, config_hash="other", models=models)
    stored(store, 1, status=RunStatus.FAILED)
    stored(store, 2, models=models)
    found = [recall(store, day, runs=1) for day in range(4)]
    assert [each.last_ok and (each.last_ok.slot, each.last_ok.models) for each in found[:3]] == [
        None,
        *[(SLOT, models)] * 2,
    ]
    assert [run.models for run in found[3].past] == [models]


def test_what_others_stored_since_is_found_without_reading_it(store):
    names, now, seen = ["home-feed", "search", "new"], at(9), Watermark()

    def changed():
        nonlocal seen
        names_changed, seen = store.history.changes(names, seen, until=now)
        return {*names_changed}

    for name in ("home-feed", "search"):
        worked.run(store, SLOT, comparison=name)
    assert [changed(), changed()] == [{"home-feed", "search"}, set()]

    # A newer run, an older one that changes nothing, one in the future of a clock that ran ahead,
    # one that still runs.
    worked.run(store, at(1), comparison="search")
    worked.run(store, at(-1))
    worked.run(store, now + DAY)
    worked.claimed(store, at(2))
    assert changed() == {"search"}

    assert worked.finish(store, worked.claimed(store, SLOT, rerun=True, now=now))
    assert changed() == {"home-feed"}

    fired = factories.transition(from_state=State.QUIET)
    store.alerts.store_states((factories.state(state=State.FIRING),), (fired,), receivers=())
    assert store.history.changes(["search"], seen, until=now)[0] == frozenset()
    assert changed() == {"home-feed"}
    seen = Watermark(transition=10**6)
    assert changed() == {*names}


def test_runs_of_every_end_come_oldest_first_a_few_at_a_time_and_running_ones_do_not(store):
    nothing: dict[str, Any] = {"coverage": None, "summaries": (), "scores": None}
    abandoned = worked.claimed(store, at(2))
    worked.run(store, at(1), status=RunStatus.FAILED, reason="away", **nothing)
    latest = worked.newest(store)
    assert (latest.last_ok_slot, latest.last_ok_at) == (None, None)
    store.runs.abandon_expired(abandoned.until)
    stored(store, 0)
    worked.claimed(store, at(5))

    def read(after, comparison="home-feed"):
        found = store.history.finished_runs(comparison, after=after, limit=2)
        return [(each.status, each.slot, each.coverage, each.summaries) for each in found]

    assert read(None) == [
        (RunStatus.OK, SLOT, worked.coverage(), (factories.summary(mean=0.5),)),
        (RunStatus.FAILED, at(1), None, ()),
    ]
    assert read(at(1)) == [(RunStatus.ABANDONED, at(2), None, ())]
    assert read(at(2)) == read(None, "other") == []


MEANS = PartMeans(n=3, membership=0.1, order=1 / 3, length=-0.25)
HABITS = {"baseline": {"replaced": (0.5, 0.25, 0.25), "still": (1.0,)}}
SPLIT = Split(metric="extended_tau", asked=5, means=MEANS, habits=HABITS)
FINDING = Finding(
    kind=FaultKind.STALE,
    arms=(Arm.CANDIDATE,),
    segment="activity=new",
    segment_share=0.9,
    users=9,
    compared=20,
    explained=0.5,
    detail={"items": 3.0},
)
ITEM = ExposedItem(
    item="i\u0000 9", title="Tee \u2603", before=0.1, after=0.7, share_before=0.25, share_after=1.0
)
EXPLANATION = published.explanation(
    segment="activity=new",
    finding=FINDING,
    paired=18,
    arm=Arm.CANDIDATE,
    gained=(ITEM,),
    lost=(replace(ITEM, item="i1", title=None),),
    groups=tuple(replace(group, share_before=None) for group in published.explanation().groups),
    causes=(
        PartAmount(part=DropPart.ORDER, amount=0.3),
        PartAmount(part=DropPart.LENGTH, amount=-0.05),
    ),
)


def stored_split(store, day, *, membership=0.1, config_hash="hash", **changes):
    split = replace(SPLIT, means=replace(MEANS, membership=membership))
    return stored(
        store, day, mean=membership, config_hash=config_hash, **{"split": split, **changes}
    )


def past_splits(store, day, limit=10):
    return [split.means.membership for split in recall(store, day, runs=0, splits=limit).splits]


def test_splits_and_explanations_are_read_back_as_they_were_stored_and_explanations_of_another_version_count_as_none(
    store,
):
    run_id = stored_split(store, 0, explanation=EXPLANATION)
    assert recall(store, 1, splits=9).splits == (SPLIT,)
    assert (
        worked.record(store, run_id).explanation == worked.newest(store).explanation == EXPLANATION
    )
    assert store.history.finished_run(run_id + 1) is None
    with store.database.write() as connection:
        connection.execute(text("UPDATE explanations SET details = '{}'"))
    assert worked.record(store, run_id).explanation is worked.newest(store).explanation is None


def test_explanations_go_with_the_evidence_and_splits_with_the_run(store):
    run_id = stored_split(store, 0, explanation=EXPLANATION)
    assert worked.prune(store, evidence=at(1)) == {"evidence": 2, "explanations": 1}
    assert worked.record(store, run_id).explanation is None
    assert past_splits(store, 1) == [0.1]
    assert worked.prune(store, runs=at(1))["runs"] == 1
    assert past_splits(store, 1) == []


def test_what_runs_remember_is_of_the_newest_ok_runs_of_one_configuration_before_the_slot_oldest_first(
    store,
):
    for day in (0, 1, 3, 5):
        stored_split(store, day, membership=day / 10)
    stored_split(store, 2, config_hash="other")
    stored_split(store, 4, status=RunStatus.FAILED, reason="x")
    stored_split(store, 6, split=None)
    for day, limit, days in ((5, 9, [0, 1, 3]), (6, 2, [3, 5]), (6, 0, []), (0, 9, [])):
        assert past_splits(store, day, limit) == [each / 10 for each in days]
        past = recall(store, day, factories.rule(), runs=limit).past
        assert [(run.slot, run.summaries[0].mean) for run in past] == [
            (at(each), each / 10) for each in days
        ]
    assert past_splits(store, 9, limit=3) == [0.3, 0.5]  # the newest has no split


@pytest.mark.parametrize("among", [run_memory._SEARCHED, 2])
def test_each_run_knows_its_alerts_and_explanations_since_the_last_end_and_those_in_alarm_or_suspicious_are_not_healthy(
    store, among, monkeypatch
):
    monkeypatch.setattr(run_memory, "_SEARCHED", among)
    changes = {
        1: (State.QUIET, State.PENDING),
        2: (State.PENDING, State.FIRING),
        4: (State.FIRING, State.QUIET),
    }
    for day in range(7):
        slot = at(day)
        moves: dict[str, Any] = {}
        if day in changes:
            was, now = changes[day]
            key = "k" if now is State.FIRING else None
            transition = factories.transition(slot=slot, at=slot, from_state=was, to_state=now)
            moves = {
                "transitions": (transition,),
                "states": (factories.state(state=now, judged_slot=slot, dedup_key=key),),
            }
        if day == 5:
            record = replace(FULL, alert="Trend", evidence=100.0)
            moves = {"expectations": (record,)}
        stored_split(
            store,
            day,
            membership=day / 10,
            explanation=replace(EXPLANATION, sentence=str(day)),
            **moves,
        )

    explained = recall(store, 7, runs=0, splits=1).explained
    assert [(slot, each.sentence) for slot, each in explained] == [
        (at(day), str(day)) for day in (6, 5, 4)
    ]
    states = [
        run.states.get(("SimilarityLow", "all")) for run in recall(store, 6, factories.rule()).past
    ]
    assert states == [State.PENDING, State.FIRING, State.FIRING, None, None]
    assert past_splits(store, 7) == [0.0, 0.4, 0.6]
