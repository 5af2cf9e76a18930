"""What a finished run leaves behind, and that it leaves all or nothing."""

import re
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import factories
from factories import HOUR, SECOND, SLOT, coverage_row, lost_lists, state
from monitor.model.errors import DatabaseError
from monitor.model.model_versions import ArmModel
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.run_reasons import RunReason, RunReasonKind
from monitor.model.runs import EvidenceKind, MeasuredRun, Run, RunStatus, Scores
from monitor.model.unpaired import ItemExposure
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import runs
from storage.worked import (
    HOOK,
    LATER,
    attempt,
    claimed,
    coverage,
    evidence,
    finish,
    fired,
    newest,
    record,
    result,
    run,
    runs_of,
    scores,
    select_rows,
)
from texts.examples import EXCESS, MISMATCH, UNPAIRED


def counts(store):
    """Return the number of rows by table, without empty tables."""
    found = {}
    for name in metadata.tables:
        ((found[name],),) = select_rows(store, f"SELECT count(*) FROM {name}")
    return {name: number for name, number in found.items() if number}


def test_a_finished_run_is_read_back_unchanged(store):
    claim = claimed(store)
    assert finish(store, claim, (state(), None))
    stored = result(claim)

    (latest,) = store.history.latest(["home-feed", "unknown"])
    assert latest.coverage == stored.coverage
    assert latest.summaries == stored.summaries
    assert latest.states == (state(),)
    assert latest.last_ok_slot == SLOT
    assert latest.last_ok_at == SLOT + 9 * SECOND
    assert store.history.evidence(latest.id) == stored.evidence
    assert record(store, latest.id).summaries == stored.summaries
    assert counts(store) == {
        "runs": 1,
        "coverage": 2,
        "summaries": 2,
        "scores": 3,
        "score_places": 2,
        "evidence": 2,
        "alert_states": 1,
    }


SCALARS = re.compile(r"(bool|int|float|str|date|datetime|timedelta)( \| None)?")


def test_every_scalar_of_a_measured_run_is_stored_and_every_field_of_a_run_read_back(store):
    """Otherwise fields without a column would silently have their defaults when they are read."""
    measured: Any = {
        each.name: 1
        for each in fields(MeasuredRun)
        if SCALARS.fullmatch(str(each.type)) and each.name != "slot"
    }
    columns = {"is_labelled": "labelled_at"}
    assert not [name for name in measured if columns.get(name, name) not in runs.c]

    users = {"v12": 60, "\x00" * 90: 700} | dict.fromkeys("abcdef", 1)
    now = ArmModel(now="v12", before="v11", since=SLOT - HOUR, users=users)
    models = {Arm.BASELINE: ArmModel(now="v1"), Arm.CANDIDATE: now}
    reasons = (
        lost_lists("\x00 503 \ud800", 5, 6),
        RunReason(kind=RunReasonKind.ID_MISMATCH, mismatch=MISMATCH),
        RunReason(kind=RunReasonKind.TOO_FEW, users=1, asked=6, limit=0.9, slot=SLOT),
    )
    lists = {Arm.BASELINE: 3, Arm.CANDIDATE: 0}
    exposure = ItemExposure(item="\x00 \ud800", lists=lists, first=dict.fromkeys(Arm, 0))
    unpaired = replace(UNPAIRED, before_p=0.25, between=(EXCESS,), items=(exposure,))
    of_arms = replace(coverage().all, asked_by_arm={Arm.BASELINE: 4, Arm.CANDIDATE: 1})
    stored = result(
        claimed(store),
        reason="r",
        reasons=reasons,
        labels_until=SLOT,
        models=models,
        coverage=Coverage(rows=(of_arms,)),
        **measured | {"input_hash": "00ff", "unpaired": unpaired},
    )
    assert store.runs.finish(stored, receivers=())
    (found,) = runs_of(store)
    assert found.models == models
    assert found.input_hash == "00ff"
    assert found.reasons == reasons
    assert found.unpaired == unpaired
    assert record(store, found.id).coverage == stored.coverage
    for each in fields(Run):
        assert getattr(found, each.name) not in (None, each.default), each.name


def test_numpy_numbers_are_stored_as_numbers_and_nan_as_null(store):
    odd: Any = {"n": np.int64(3), "n_undefined": np.int32(0), "mean": np.float64("nan")}
    odd["statistics"] = {"p05": np.float64(0.5), "p95": float("nan")}
    row = coverage_row(np.int64(3), np.int64(2))
    kept = evidence(scores={"a": float("nan")})
    run(
        store,
        SLOT,
        summaries=(factories.summary(**odd),),
        coverage=Coverage(rows=(row,)),
        evidence=(kept,),
    )

    latest = newest(store)
    (found,) = latest.summaries
    assert found.n == 3
    assert found.mean is None
    assert found.statistics == {"p05": 0.5}
    assert latest.asked == 3
    assert store.history.evidence(latest.id)[0].scores == {"a": None}


def test_running_a_slot_again_over_the_same_lists_leaves_the_same_rows(store):
    move = fired()
    run(store, SLOT, move, receivers=HOOK)
    before = counts(store)

    run(store, SLOT, move, receivers=HOOK)

    assert counts(store) == before
    assert newest(store).attempt == 2


def test_a_rerun_replaces_what_the_earlier_attempt_stored(store):
    run(store, SLOT)
    only = factories.summary(mean=0.1, statistics={})
    rest: Any = {"evidence": (), "coverage": None, "stage_seconds": {"pull": 2.0}}
    run_id = run(store, SLOT, summaries=(only,), scores=scores({"overlap": {"u7": 0.5}}), **rest)

    latest = newest(store)
    assert latest.summaries == (only,)
    assert latest.coverage is None
    assert not store.history.evidence(run_id)
    left = store.history.run_scores(run_id, ["overlap", "extended_tau"])
    assert list(left.users) == ["u7"]
    assert list(left.by_metric) == ["overlap"]


def test_a_result_whose_claim_was_taken_over_stores_nothing(store):
    first = claimed(store)
    second = claimed(store, owner="b:2", now=LATER, until=SLOT + 2 * HOUR)
    before = counts(store)

    assert not finish(store, first, fired(), receivers=HOOK)

    assert counts(store) == before
    assert runs_of(store)[0].status is RunStatus.RUNNING
    assert finish(store, second)


def test_a_late_result_of_an_abandoned_run_is_stored(store):
    claim = claimed(store)
    store.runs.abandon_expired(LATER)

    assert finish(store, claim)
    (shown,) = runs_of(store)
    assert shown.status == RunStatus.OK
    assert shown.reason is None


def test_evidence_is_ordered_and_every_reason_can_be_stored(store):
    kept = (
        evidence(kind=EvidenceKind.REPRESENTATIVE, position=0),
        evidence(position=1),
        evidence(position=0),
    )
    reasons = {(arm, reason): 1 for arm in Arm for reason in CoverageReason}
    row = coverage_row(1, 0, reasons=reasons)
    run_id = run(store, SLOT, evidence=kept, coverage=Coverage(rows=(row, coverage().rows[1])))

    assert store.history.evidence(run_id) == (kept[2], kept[1], kept[0])
    assert newest(store).coverage.all == row


@pytest.mark.parametrize("part", ["summaries", "scores"])
def test_a_result_that_breaks_half_way_leaves_nothing(store, part):
    claim = claimed(store)
    before = counts(store)
    twice = Scores(users=pd.Index(["u1", "u1"], dtype="str"), by_metric={"overlap": np.zeros(2)})
    broken: Any = (
        {"scores": twice} if part == "scores" else {"summaries": (factories.summary(),) * 2}
    )

    with pytest.raises(DatabaseError, match="refused a statement"):
        finish(store, claim, fired(), receivers=HOOK, **broken)

    assert counts(store) == before
    assert attempt(store, rerun=True) is None
    assert finish(store, claim)
