"""Complete results to store. Arguments change their fields."""

from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial

import numpy as np
import pandas as pd
from sqlalchemy import text

import factories
import published
from factories import HOUR, MINUTE, SECOND, SLOT, coverage_row, state
from monitor.model.alerts import Outcome, State
from monitor.model.notifications import DeliveryStatus, Notification, Silence
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.retention import DataKind
from monitor.model.runs import Evidence, EvidenceKind, Scores
from monitor.storage import open_store

NEVER = datetime(1970, 1, 1, tzinfo=SLOT.tzinfo)
LATER = SLOT + HOUR
HOOK = ("hook",)


def claimed(store, slot=SLOT, **changes):
    claim = attempt(store, slot, **changes)
    assert claim is not None
    return claim


def attempt(store, slot=SLOT, **changes):
    asked = {
        "comparison": "home-feed",
        "owner": "a:1",
        "now": slot,
        "until": changes.get("now", slot) + HOUR,
        "config_hash": "hash",
        "rerun": False,
    }
    return store.runs.claim(slot=slot, **asked | changes)


def scores(values):
    """From metric -> user -> value."""
    users = sorted({user for of_metric in values.values() for user in of_metric})
    by_metric = {
        metric: np.array([of_metric[user] for user in users])
        for metric, of_metric in values.items()
    }
    return Scores(users=pd.Index(users, dtype="str"), by_metric=by_metric)


def store_at(url, *, create=False):
    """The store, which is closed at the end of the block."""
    return closing(open_store(url, create=create))


def store_over(file, options=""):
    """The store over a SQLite file, which is closed at the end of the block."""
    return store_at(f"sqlite:///{file}{options}")


def execute_sql(store, statement):
    with store.database.write() as connection:
        connection.execute(text(statement) if isinstance(statement, str) else statement)


def select_rows(store, query, **parameters):
    statement = text(query) if isinstance(query, str) else query
    with store.database.read() as connection:
        return connection.execute(statement, parameters).all()


def user_scores(store, user):
    """Slot, metric and value of one user's scores in the view for people, by slot and metric."""
    query = "SELECT slot, metric, value FROM user_scores WHERE user_id = :user ORDER BY 1, 2"
    return [tuple(row) for row in select_rows(store, query, user=user)]


def scored(store, run_id):
    return len(store.history.run_scores(run_id, ["extended_tau"]).users)


def coverage():
    reasons = {(Arm.CANDIDATE, CoverageReason.TIMEOUT): 2, (Arm.BASELINE, CoverageReason.SHORT): 1}
    return Coverage(
        rows=(coverage_row(5, 3, reasons=reasons), coverage_row(2, segment="activity=new"))
    )


evidence = partial(
    Evidence,
    kind=EvidenceKind.WORST,
    position=0,
    user="u1",
    baseline=("i1", "i2"),
    candidate=("i9",),
    scores={"extended_tau": -1.0, "rbo(p=0.9)": None},
)


def result(claim, **changes):
    base = published.result(
        claim=claim,
        finished_at=claim.slot + 9 * SECOND,
        config_hash="hash",
        coverage=coverage(),
        summaries=(factories.summary(), factories.summary(segment="activity=new", n=2, mean=0.25)),
        scores=[
            scores(
                {
                    "extended_tau": {"u1": -1.0, "u2": 0.5, "u3": 0.25},
                    "rbo(p=0.9)": {"u1": 0.0, "u2": 0.9, "u3": 0.8},
                }
            )
        ],
        evidence=(evidence(), evidence(kind=EvidenceKind.REPRESENTATIVE, user="u3")),
        stage_seconds={"pull": 1.5, "score": 0.25},
    )
    if isinstance(found := changes.get("scores"), Scores):
        changes["scores"] = [found]
    return replace(base, **changes)


def fired(slot=SLOT, **changes):
    """A state that fires from quiet in this slot, and its transition."""
    about = {
        name: changes.pop(name) for name in ("comparison", "alert", "segment") if name in changes
    }
    key = f"key {slot:%d %H} {about.get('segment', 'all')}"
    firing = state(
        state=State.FIRING,
        since=slot,
        judged_slot=slot,
        outcome=Outcome.BREACH,
        dedup_key=key,
        **about,
    )
    cause = factories.transition(
        slot=slot, at=slot, from_state=State.QUIET, since=slot, dedup_key=key, **about
    )
    return firing, replace(cause, **changes)


def resolved(slot, firing):
    """The same alert quiet again in this slot, and its transition."""
    about = {"comparison": firing.comparison, "alert": firing.alert, "segment": firing.segment}
    quiet = state(since=slot, judged_slot=slot, **about)
    ended = factories.transition(
        slot=slot,
        at=slot,
        from_state=State.FIRING,
        to_state=State.QUIET,
        dedup_key=firing.dedup_key,
        since=firing.since,
        **about,
    )
    return quiet, ended


def run(store, slot, *moves, comparison="home-feed", **changes):
    """Claim the slot and store a result. Returns the run's number."""
    claim = claimed(store, slot, comparison=comparison, rerun=True)
    assert finish(store, claim, *moves, **changes)
    return claim.run_id


def finish(store, claim, *moves, receivers=(), **changes):
    """Store a result with these states and transitions. Returns the run's number, or None if it was rejected."""
    states = tuple(state for state, _ in moves)
    transitions = tuple(transition for _, transition in moves if transition)
    whole = {"states": states, "transitions": transitions} | changes
    return store.runs.finish(result(claim, **whole), receivers=receivers)


def runs_of(store):
    """All runs, newest slot first."""
    return store.history.runs(comparison=None, limit=99)


def newest(store):
    """The newest finished run, with all that is shown of it."""
    (found,) = store.history.latest(["home-feed"])
    return found


def transitions(store):
    """All of them, in the order they were stored."""
    return store.alerts.transitions(comparison=None, limit=None)


def lease(store, now=LATER, *, receiver="hook", owner="a:1", limit=10):
    due = store.outbox.due_receivers([receiver], now=now)
    claimed = store.outbox.claim_deliveries(
        receiver, owner=owner, now=now, until=now + MINUTE, limit=limit
    )
    assert due == {receiver} or not claimed
    return claimed


def note(delivery, at=LATER, status=DeliveryStatus.SENT, **changes):
    base = Notification(
        delivery_id=delivery.id, at=at, status=status, reason=None, next_attempt_at=None
    )
    return replace(base, **changes)


def record(store, run_id):
    found = store.history.finished_run(run_id)
    assert found is not None
    return found


def prune(store, *, now=SLOT, **before):
    """Delete what is older than these, and nothing else; rows by table."""
    found = store.maintenance.prune(cutoffs(**before), now=now)
    assert found.reason is None
    return dict(found.deleted_rows)


def cutoffs(**before):
    return {kind: before.get(kind, NEVER) for kind in DataKind}


def silence(at, ends_at, matcher="segment=all"):
    return Silence(
        id=0,
        matchers=(matcher,),
        author="anna",
        comment="",
        created_at=at,
        starts_at=at,
        ends_at=ends_at,
    )
