"""Splits and explanations as they are stored, and which runs count as healthy."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import update

import factories
import published
from factories import DAY, SLOT
from monitor.model.alerts import Expectation, State
from monitor.model.explanation import Cause, ExposedItem, FaultKind, Finding, Part, PartMeans, Split
from monitor.model.memory import MemoryRequest, PastRun
from monitor.model.rankings import Arm
from monitor.model.rules import describe_series
from monitor.model.runs import RunStatus
from monitor.storage import SqlStore, run_history
from monitor.storage.tables.run_tables import explanations
from storage import worked

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
ITEM = ExposedItem(item="i\u0000 9", title="Tee \u2603", before=0.1, after=0.7, share_before=0.25, share_after=1.0)
EXPLANATION = published.explanation(
    segment="activity=new",
    finding=FINDING,
    paired=18,
    arm=Arm.CANDIDATE,
    gained=(ITEM,),
    lost=(replace(ITEM, item="i1", title=None),),
    groups=tuple(replace(group, share_before=None) for group in published.explanation().groups),
    causes=(Cause(part=Part.ORDER, amount=0.3), Cause(part=Part.LENGTH, amount=-0.05)),
)


def stored(store: SqlStore, day: int, *, membership: float = 0.1, config_hash: str = "hash", **changes: Any) -> int:
    claim = worked.claimed(store, SLOT + day * DAY, config_hash=config_hash)
    split = replace(SPLIT, means=replace(MEANS, membership=membership))
    summaries = (factories.summary(mean=membership),)
    result = worked.result(claim, **{"config_hash": config_hash, "split": split, "summaries": summaries, **changes})
    assert store.runs.finish(result, receivers=())
    return claim.run_id


def splits(store: SqlStore, before: datetime, limit: int = 9) -> tuple[Split, ...]:
    request = MemoryRequest(comparison="home-feed", config_hash="hash", before=before, splits=limit)
    return store.history.memory_of(request).splits


def past_runs(store: SqlStore, day: int, limit: int) -> tuple[PastRun, ...]:
    rule = factories.rule()
    return store.history.past_runs(
        MemoryRequest(
            comparison="home-feed",
            config_hash="hash",
            before=SLOT + day * DAY,
            runs=limit,
            series={rule.alert: describe_series(rule)},
        )
    )


def past(store: SqlStore, day: int, limit: int = 10) -> list[float]:
    found = splits(store, SLOT + day * DAY, limit)
    return [split.means.membership for split in found]


def test_an_explanation_is_read_back_as_it_was_stored_and_shown_with_the_newest_run(store: SqlStore) -> None:
    run_id = stored(store, 0, explanation=EXPLANATION)
    assert worked.record(store, run_id).explanation == EXPLANATION
    assert store.history.latest(["home-feed"])[0].explanation == EXPLANATION
    assert store.history.record(run_id + 1) is None


def test_an_explanation_of_another_version_counts_as_none(store: SqlStore) -> None:
    run_id = stored(store, 0, explanation=EXPLANATION)
    with store.database.write() as connection:
        connection.execute(update(explanations).values(details={"metric": "extended_tau", "finding": {"kind": "teleported"}}))
    assert worked.record(store, run_id).explanation is None
    assert store.history.latest(["home-feed"])[0].explanation is None


def test_splits_are_read_back_as_they_were_stored(store: SqlStore) -> None:
    stored(store, 0)
    assert splits(store, SLOT + DAY) == (SPLIT,)


@pytest.mark.parametrize(("evidence", "limit", "expected"), [(99.9, 1e4, False), (100.0, 1e4, True), (None, 1e4, False)])
def test_a_trend_half_way_to_firing_is_suspicious(evidence: float | None, limit: float, expected: bool) -> None:
    found = Expectation(alert="Trend", segment="all", runs=9, evidence=evidence, evidence_limit=limit)
    assert found.is_suspicious is expected


def test_explanations_go_with_the_evidence_and_splits_with_the_run(store: SqlStore) -> None:
    run_id = stored(store, 0, explanation=EXPLANATION)
    gone = worked.prune(store, evidence=SLOT + DAY)
    assert gone == {"evidence": 2, "explanations": 1}
    assert worked.record(store, run_id).explanation is None
    assert past(store, 1) == [0.1]
    gone = worked.prune(store, runs=SLOT + DAY)
    assert gone["splits"] == 1
    assert past(store, 1) == []


def test_what_runs_remember_is_of_the_newest_ok_runs_of_one_configuration_before_the_slot_oldest_first(store: SqlStore) -> None:
    for day in (0, 1, 3, 5):
        stored(store, day, membership=day / 10)
    stored(store, 2, config_hash="other")
    stored(store, 4, status=RunStatus.FAILED, reason="x")
    stored(store, 6, split=None)
    for day, limit, days in ((5, 9, [0, 1, 3]), (6, 2, [3, 5]), (6, 0, []), (0, 9, [])):
        assert past(store, day, limit) == [each / 10 for each in days]
        assert [((run.slot - SLOT) // DAY, run.summaries[0].mean) for run in past_runs(store, day, limit)] == [
            (each, each / 10) for each in days
        ]
    assert past(store, 9, limit=3) == [0.3, 0.5]  # the newest has no split


@pytest.mark.parametrize("among", [run_history._HEALTHY_AMONG, (2, 2000)], ids=["newest", "further ones too"])
def test_each_run_knows_its_alerts_and_those_in_alarm_or_under_suspicion_are_not_healthy(
    store: SqlStore, among: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_history, "_HEALTHY_AMONG", among)
    changes = {1: (State.QUIET, State.PENDING), 2: (State.PENDING, State.FIRING), 4: (State.FIRING, State.QUIET)}
    for day in range(7):
        slot = SLOT + day * DAY
        moves: dict[str, Any] = {}
        if day in changes:
            was, now = changes[day]
            key = "k" if now is State.FIRING else None
            transition = factories.transition(slot=slot, at=slot, from_state=was, to_state=now)
            moves = {"transitions": (transition,), "states": (factories.state(state=now, judged_slot=slot, dedup_key=key),)}
        if day == 5:
            suspicion = Expectation(alert="Trend", segment="all", runs=9, evidence=100.0, evidence_limit=1e4)
            moves = {"expectations": (suspicion,)}
        stored(store, day, membership=day / 10, **moves)

    states = [run.states.get(("SimilarityLow", "all")) for run in past_runs(store, 6, 5)]
    assert states == [State.PENDING, State.FIRING, State.FIRING, None, None]
    assert past(store, 7) == [0.0, 0.4, 0.6]
