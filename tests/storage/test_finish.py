"""What a finished run leaves behind, and that it leaves all or nothing."""

import re
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import func, select

import factories
from factories import HOUR, SLOT, lost_lists, state
from monitor.model.errors import DatabaseError
from monitor.model.model_versions import ArmModel
from monitor.model.rankings import Arm, Coverage, CoverageReason, CoverageRow
from monitor.model.run_reasons import IdKind, IdMismatch, MismatchKind, RunReason, RunReasonKind
from monitor.model.runs import EvidenceKind, MeasuredRun, Run, RunStatus, Scores
from monitor.model.unpaired import ArmCounts, BetweenExcess, ItemExposure, UnpairedResults
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import runs
from storage.worked import (
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
)


def counts(store):
    with store.database.read() as connection:
        rows = {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in metadata.tables.items()
        }
    return {name: number for name, number in rows.items() if number}


def test_a_finished_run_is_read_back_as_it_was(store):
    stored = result(claimed(store), states=(state(),))
    assert store.runs.finish(stored, receivers=())

    (latest,) = store.history.latest(["home-feed", "unknown"])
    assert latest.coverage == stored.coverage
    assert latest.summaries == stored.summaries
    assert latest.states == stored.states
    assert (latest.last_ok_slot, latest.last_ok_at) == (SLOT, SLOT + timedelta(seconds=9))
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
    """Fields without a column are left out on the way in, and take their defaults on the way out, in silence."""
    measured: dict[str, Any] = {
        each.name: 1
        for each in fields(MeasuredRun)
        if SCALARS.fullmatch(str(each.type)) and each.name != "slot"
    }
    columns = {"is_labelled": "labelled_at"}
    assert [name for name in measured if columns.get(name, name) not in runs.c] == []

    users = {"v12": 60, "\x00" * 90: 700, **dict.fromkeys("abcdef", 1)}
    now = ArmModel(now="v12", before="v11", since=SLOT - HOUR, users=users)
    models = {Arm.BASELINE: ArmModel(now="v1"), Arm.CANDIDATE: now}
    mismatch = IdMismatch(kind=MismatchKind.CASE, ids=IdKind.USER, common=0, compared=9)
    reasons = (
        lost_lists("\x00 503 \ud800", 5, 6),
        RunReason(kind=RunReasonKind.ID_MISMATCH, mismatch=replace(mismatch, examples=("A", "a"))),
        RunReason(kind=RunReasonKind.TOO_FEW, users=1, asked=6, limit=0.9, slot=SLOT),
    )
    exposure = ItemExposure(
        item="\x00 \ud800",
        lists={Arm.BASELINE: 3, Arm.CANDIDATE: 0},
        first={Arm.BASELINE: 0, Arm.CANDIDATE: 0},
    )
    unpaired = UnpairedResults(
        baseline_share=0.9,
        users={arm: ArmCounts(assigned=9, served=8, compared=7) for arm in Arm},
        switched=1,
        log_e=-0.5,
        before_p=0.25,
        between=(BetweenExcess(segment="all", baseline=0.5, candidate=0.25, across=0.125),),
        items=(exposure,),
    )
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
    assert (found.models, found.input_hash, found.reasons) == (models, "00ff", reasons)
    assert found.unpaired == unpaired
    assert record(store, found.id).coverage == stored.coverage
    assert [
        each.name for each in fields(Run) if getattr(found, each.name) in (None, each.default)
    ] == []


def test_numpy_numbers_and_nan_are_stored_as_plain_numbers_and_nothing(store):
    odd = factories.summary(
        n=np.int64(3),
        n_undefined=np.int32(0),
        mean=np.float64("nan"),
        statistics={"p05": np.float64(0.5), "p95": float("nan")},
    )
    row = CoverageRow(segment="all", asked=np.int64(3), paired=np.int64(2), users_by_reason={})  # type: ignore[arg-type]
    kept = evidence(scores={"a": float("nan")})
    run(store, SLOT, summaries=(odd,), coverage=Coverage(rows=(row,)), evidence=(kept,))

    latest = newest(store)
    (found,) = latest.summaries
    assert (found.n, found.mean, found.statistics) == (3, None, {"p05": 0.5})
    assert latest.asked == 3
    assert store.history.evidence(latest.id)[0].scores == {"a": None}


def test_running_a_slot_again_over_the_same_lists_leaves_the_same_rows(store):
    move = fired()
    run(store, SLOT, move, receivers=("hook",))
    before = counts(store)

    run(store, SLOT, move, receivers=("hook",))

    assert counts(store) == before
    assert newest(store).attempt == 2


def test_a_rerun_replaces_what_the_earlier_attempt_stored(store):
    run(store, SLOT)
    only = factories.summary(mean=0.1, statistics={})
    rest: dict[str, Any] = {"evidence": (), "coverage": None, "stage_seconds": {"pull": 2.0}}
    run_id = run(store, SLOT, summaries=(only,), scores=scores({"overlap": {"u7": 0.5}}), **rest)

    latest = newest(store)
    assert (latest.summaries, latest.coverage, store.history.evidence(run_id)) == (
        (only,),
        None,
        (),
    )
    left = store.history.run_scores(run_id, ["overlap", "extended_tau"])
    assert (list(left.users), list(left.by_metric)) == (["u7"], ["overlap"])


def test_a_result_whose_claim_was_taken_over_stores_nothing(store):
    first = claimed(store)
    second = claimed(store, owner="b:2", now=LATER, until=SLOT + 2 * HOUR)
    before = counts(store)

    firing, cause = fired()
    assert not store.runs.finish(
        result(first, states=(firing,), transitions=(cause,)), receivers=("hook",)
    )

    assert counts(store) == before
    assert runs_of(store)[0].status is RunStatus.RUNNING
    assert finish(store, second)


def test_a_late_result_of_an_abandoned_run_that_nobody_took_is_stored(store):
    claim = claimed(store)
    store.runs.abandon_expired(LATER)

    assert finish(store, claim)
    (shown,) = runs_of(store)
    assert (shown.status, shown.reason) == (RunStatus.OK, None)


def test_latest_is_the_newest_finished_run_and_remembers_when_one_was_ok(store):
    run(store, SLOT)
    run(store, LATER, status=RunStatus.FAILED, reason="down", summaries=())
    claimed(store, SLOT + 2 * HOUR)
    run(store, SLOT - HOUR, comparison="search")

    home, search = store.history.latest(["home-feed", "search"])
    assert (home.slot, home.last_ok_slot, home.first_slot) == (LATER, SLOT, SLOT)
    assert search.slot == SLOT - HOUR
    assert store.history.latest([]) == ()


def test_evidence_comes_worst_first_then_by_position_and_every_reason_of_the_model_can_be_stored(
    store,
):
    kept = (
        evidence(kind=EvidenceKind.REPRESENTATIVE, position=0),
        evidence(position=1),
        evidence(position=0),
    )
    reasons = {(arm, reason): 1 for arm in Arm for reason in CoverageReason}
    row = CoverageRow(segment="all", asked=1, paired=0, users_by_reason=reasons)
    run_id = run(store, SLOT, evidence=kept, coverage=Coverage(rows=(row, coverage().rows[1])))

    assert store.history.evidence(run_id) == (kept[2], kept[1], kept[0])
    shown = newest(store).coverage
    assert shown is not None
    assert shown.all == row


@pytest.mark.parametrize("part", ["summaries", "scores"])
def test_a_result_that_breaks_half_way_leaves_nothing(store, part):
    claim = claimed(store)
    before = counts(store)
    firing, cause = fired()
    twice = Scores(users=pd.Index(["u1", "u1"], dtype="str"), by_metric={"overlap": np.zeros(2)})
    broken: dict[str, Any] = (
        {"scores": twice} if part == "scores" else {"summaries": (factories.summary(),) * 2}
    )

    with pytest.raises(DatabaseError, match="refused a statement"):
        store.runs.finish(
            result(claim, states=(firing,), transitions=(cause,), **broken), receivers=("hook",)
        )

    assert counts(store) == before
    assert attempt(store, rerun=True) is None
    assert finish(store, claim)
