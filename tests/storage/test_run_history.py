"""Earlier runs from which rules learn, their splits and explanations, and which runs count as healthy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import factories
import published
from factories import DAY, SLOT
from monitor.model.alerts import Expectation, State
from monitor.model.explanation import DropPart, ExposedItem, FaultKind, PartAmount, PartMeans, Split
from monitor.model.memory import MemoryRequest
from monitor.model.model_versions import follow_models
from monitor.model.rankings import Arm
from monitor.model.rules import judged_series
from monitor.model.runs import RunStatus, Watermark
from monitor.storage import run_memory
from monitor.storage.tables.run_tables import lessons
from storage.worked import claimed, coverage, execute_sql, finish, newest, prune, record, run
from texts import examples

LOW = factories.rule(alert="Low", segments="each")
FULL = factories.expectation(alert="Low", limit=0.4, z=1.5, evidence=12.0, evidence_limit=1e4)
LEARNING = Expectation(alert="Low", segment="country=DE", runs=3)
SEEN = (
    replace(
        FULL, series=judged_series(LOW), judged=0.1 + 0.2, error=1e-17, lost=0.125, trend_z=1.25
    ),
    replace(LEARNING, series=judged_series(LOW), judged=0.25),
)


def stored(store, day, *, mean=0.5, **changes):
    return run(store, at(day), summaries=(factories.summary(mean=mean),), **changes)


def at(day):
    return SLOT + day * DAY


def recall(store, day, *rules, runs=5, **changes):
    """The memory of a run of that day."""
    series = {rule.alert: judged_series(rule) for rule in rules}
    request = MemoryRequest(
        comparison="home-feed", config_hash="hash", before=at(day), runs=runs, series=series
    )
    return store.history.memory_of(replace(request, **changes))


def test_expectations_are_read_back_unchanged_and_removed_by_a_rerun(store):
    stored(store, 0, expectations=SEEN)
    assert newest(store).expectations == (FULL, LEARNING)
    lessons_of_run = recall(store, 1, LOW).past[0].lessons
    assert lessons_of_run.topics == (("Low", judged_series(LOW), ("all", "country=DE")),)
    numbers = [[0.1 + 0.2, 0.25], [1e-17, np.nan], [1.5, np.nan], [0.125, 0.0], [1.25, np.nan]]
    np.testing.assert_array_equal(lessons_of_run.numbers, numbers)

    execute_sql(store, lessons.update().values(numbers=b"short"))
    (damaged,) = recall(store, 1, LOW).past
    assert damaged.lessons is None
    assert len(damaged.summaries) == 1

    run(store, SLOT)
    assert not newest(store).expectations
    assert recall(store, 1).past[0].lessons is None


def test_learning_starts_again_with_another_configuration(store):
    stored(store, 0, config_hash="former")
    stored(store, 1)

    assert recall(store, 2).learning_since == at(1)
    assert recall(store, 2, config_hash="new").learning_since == at(2)
    stored(store, 2, config_hash="new", status=RunStatus.FAILED)
    assert recall(store, 3, config_hash="new").learning_since == at(2)


def test_memory_has_the_last_ok_run_of_any_configuration(store):
    models = follow_models(None, {Arm.CANDIDATE: {"v12": 9}}, SLOT)
    stored(store, 0, config_hash="other", models=models)
    stored(store, 1, status=RunStatus.FAILED)
    stored(store, 2, models=models)
    assert recall(store, 0).last_ok is None
    for day in (1, 2):
        last_ok = recall(store, day).last_ok
        assert last_ok.slot == SLOT
        assert last_ok.models == models
    (past,) = recall(store, 3, runs=1).past
    assert past.models == models


def test_changes_by_other_processes_are_found_by_comparison(store):
    names = ["home-feed", "search", "new"]
    now = at(9)
    seen = Watermark()

    def changed():
        nonlocal seen
        names_changed, seen = store.history.changes(names, seen, until=now)
        return {*names_changed}

    for name in ("home-feed", "search"):
        run(store, SLOT, comparison=name)
    assert changed() == {"home-feed", "search"}
    assert not changed()

    # A newer run, an older run that changes nothing, a run in the future because the clock was wrong,
    # and a running run.
    run(store, at(1), comparison="search")
    run(store, at(-1))
    run(store, now + DAY)
    claimed(store, at(2))
    assert changed() == {"search"}

    assert finish(store, claimed(store, rerun=True, now=now))
    assert changed() == {"home-feed"}

    fired = factories.transition(from_state=State.QUIET)
    store.alerts.store_states((factories.state(state=State.FIRING),), (fired,), receivers=())
    assert store.history.changes(["search"], seen, until=now)[0] == frozenset()
    assert changed() == {"home-feed"}
    seen = Watermark(transition=10**6)
    assert changed() == {*names}


def test_finished_runs_are_read_oldest_first_in_pages(store):
    nothing: Any = {"coverage": None, "summaries": (), "scores": None}
    abandoned = claimed(store, at(2))
    run(store, at(1), status=RunStatus.FAILED, reason="away", **nothing)
    latest = newest(store)
    assert latest.last_ok_slot is None
    assert latest.last_ok_at is None
    store.runs.abandon_expired(abandoned.until)
    stored(store, 0)
    claimed(store, at(5))
    latest = newest(store)
    assert (latest.slot, latest.last_ok_slot, latest.first_slot) == (at(2), SLOT, SLOT)

    def read(after, comparison="home-feed"):
        found = store.history.finished_runs(comparison, after=after, limit=2)
        return [(each.status, each.slot, each.coverage, each.summaries) for each in found]

    assert read(None) == [
        (RunStatus.OK, SLOT, coverage(), (factories.summary(mean=0.5),)),
        (RunStatus.FAILED, at(1), None, ()),
    ]
    assert read(at(1)) == [(RunStatus.ABANDONED, at(2), None, ())]
    assert read(at(2)) == read(None, "other") == []


MEANS = PartMeans(n=3, membership=0.1, order=1 / 3, length=-0.25)
HISTOGRAMS = {"baseline": {"replaced": (0.5, 0.25, 0.25), "unchanged": (1.0,)}}
SPLIT = Split(metric="extended_tau", asked=5, means=MEANS, histograms=HISTOGRAMS)
FINDING = examples.found(FaultKind.UNCHANGED, explained=0.5, detail={"items": 3.0})
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


def stored_split(store, day, *, membership=0.1, **changes):
    split = replace(SPLIT, means=replace(MEANS, membership=membership))
    return stored(store, day, mean=membership, **{"split": split} | changes)


def past_splits(store, day, limit=10):
    return [split.means.membership for split in recall(store, day, runs=0, splits=limit).splits]


def test_splits_and_explanations_are_read_back_unchanged_and_unknown_formats_are_ignored(store):
    run_id = stored_split(store, 0, explanation=EXPLANATION)
    assert recall(store, 1, splits=9).splits == (SPLIT,)
    assert record(store, run_id).explanation == newest(store).explanation == EXPLANATION
    assert store.history.finished_run(run_id + 1) is None
    execute_sql(store, "UPDATE explanations SET details = '{}'")
    assert record(store, run_id).explanation is newest(store).explanation is None


def test_explanations_expire_with_the_evidence_and_splits_with_the_run(store):
    run_id = stored_split(store, 0, explanation=EXPLANATION)
    assert prune(store, evidence=at(1)) == {"evidence": 2, "explanations": 1}
    assert record(store, run_id).explanation is None
    assert past_splits(store, 1) == [0.1]
    assert prune(store, runs=at(1))["runs"] == 1
    assert not past_splits(store, 1)


def test_memory_has_the_newest_ok_runs_of_the_configuration_before_the_slot_oldest_first(store):
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


@pytest.mark.parametrize("among", [run_memory._RUNS_SEARCHED_FOR_HEALTHY, 2])
def test_memory_has_alerts_and_explanations_of_runs_and_runs_with_alerts_are_not_healthy(
    store, among, monkeypatch
):
    monkeypatch.setattr(run_memory, "_RUNS_SEARCHED_FOR_HEALTHY", among)
    quiet, pending, firing = State
    changes = {1: (quiet, pending), 2: (pending, firing), 4: (firing, quiet)}
    for day in range(7):
        slot = at(day)
        parts: Any = {"explanation": replace(EXPLANATION, sentence=str(day))}
        if day in changes:
            was, now = changes[day]
            change = factories.transition(slot=slot, at=slot, from_state=was, to_state=now)
            key = "k" if now is firing else None
            state = factories.state(state=now, judged_slot=slot, dedup_key=key)
            parts |= {"transitions": (change,), "states": (state,)}
        if day == 5:
            parts["expectations"] = (replace(FULL, alert="Trend", evidence=100.0),)
        stored_split(store, day, membership=day / 10, **parts)

    explained = recall(store, 7, runs=0, splits=1).earlier_explanations
    assert [slot for slot, _ in explained] == [at(day) for day in (6, 5, 4)]
    assert [each.sentence for _, each in explained] == ["6", "5", "4"]
    past = recall(store, 6, factories.rule()).past
    states = [each.states.get(("SimilarityLow", "all")) for each in past]
    assert states == [pending, firing, firing, None, None]
    assert past_splits(store, 7) == [0.0, 0.4, 0.6]
