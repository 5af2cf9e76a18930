"""Per-user scores: in fast, out by user and by rank, and by SQL."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import text

from factories import HOUR, SLOT
from monitor.model.runs import Scores
from monitor.storage import SqlStore, score_rows
from monitor.storage import user_scores as per_user
from storage.worked import claimed, finish, result, run, scores, user_scores

NAN = float("nan")


def store_scores(store: SqlStore, values: dict[str, dict[str, float]], hours: int = 0, comparison: str = "home-feed") -> int:
    return run(store, SLOT + hours * HOUR, comparison=comparison, scores=scores(values))


def test_batches_of_users_in_any_order_and_of_more_metrics_than_a_row_holds_join_without_loss(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_rows, "CHUNK", 7)
    draw = np.random.default_rng(7)
    users = ["u\u2400", "a" * 600, "\\N\t\r\n\\.\n", *(f"u{number:02}" for number in range(20)), "\u00fc\U0001f600"]
    values = {f"m{number}": np.where(draw.random(len(users)) < 0.2, NAN, draw.normal(size=len(users))) for number in range(11)}
    values["m10"][:] = NAN
    rows = [[5, 3, 22, 1], list(range(6, 22)), [], [0, 2, 4, 23]]
    claim = claimed(store)
    with store.database.write() as connection:
        per_user.store_scores(
            connection,
            claim.run_id,
            SLOT,
            (
                Scores(users=pd.Index([users[row] for row in part]), by_metric={m: v[part] for m, v in values.items()})
                for part in rows
            ),
        )

    found = store.history.run_scores(claim.run_id, list(values))

    order = [users.index(user) if len(user) < 70 else 1 for user in found.users]
    assert sorted(order) == list(range(len(users)))
    for metric, column in values.items():
        np.testing.assert_array_equal(found.by_metric[metric], column[order])


def test_metrics_that_are_measured_later_replace_their_own_scores_and_no_others(store: SqlStore) -> None:
    run_id = store_scores(store, {"tau": {"a": 0.1, "b": 0.2}, "rbo": {"a": 0.3, "b": 0.4}})
    for later in ({"ndcg": {"a": 0.5}}, {"ndcg": {"a": 0.6}}, {"rbo": {"b": 0.7}, "ndcg": {"b": NAN}}):
        with store.database.write() as connection:
            per_user.replace_scores(connection, run_id, SLOT, scores(later))

    with store.database.read() as connection:
        rows = connection.execute(text("SELECT user_id, metric, value FROM user_scores ORDER BY metric, user_id")).all()
        assert connection.execute(text("SELECT count(*) FROM scores")).scalar_one() == 3
    assert [tuple(row) for row in rows] == [("b", "ndcg", None), ("b", "rbo", 0.7), ("a", "tau", 0.1), ("b", "tau", 0.2)]


def test_scores_without_metrics_or_users_store_nothing(store: SqlStore) -> None:
    nobody = Scores(users=pd.Index([], dtype="str"), by_metric={"tau": np.array([])})
    no_metric = Scores(users=pd.Index(["u1"], dtype="str"), by_metric={})

    for hours, given in enumerate((nobody, no_metric)):
        assert finish(store, claimed(store, SLOT + hours * HOUR), scores=given)
    assert user_scores(store, "u1") == []


def test_a_person_s_queries_find_scores_by_the_key(store: SqlStore) -> None:
    for hours in range(8):
        run_id = store_scores(store, {"tau": {f"u{number:05}": 0.5 for number in range(2000)}}, hours)
    explain = "EXPLAIN QUERY PLAN " if store.database.is_sqlite else "EXPLAIN "
    with store.database.write() as connection:
        connection.execute(text("ANALYZE scores"))
    of_user = "run_id=? AND part=? AND user_id=?"
    for asked, key, rows in (
        ("comparison = 'home-feed' AND metric = 'tau' AND user_id = 'u00007'", of_user, 8),
        ("comparison = 'home-feed' AND user_id = 'u00007'", of_user, 8),
        (f"run_id = {run_id} AND metric = 'tau'", "run_id=? AND part=?", 2000),
    ):
        query = f"SELECT value FROM user_scores WHERE {asked}"  # noqa: S608 - conditions of ours
        with store.database.read() as connection:
            plan = " ".join(str(row) for row in connection.execute(text(explain + query)))
            assert len(connection.execute(text(query)).all()) == rows
        assert f"scores USING PRIMARY KEY ({key})" in plan or "scores_2024_01_08_pkey" in plan


def test_storing_many_users_needs_the_memory_of_one_chunk(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_rows, "CHUNK", 1000)
    count = 10_000
    users = pd.Index([f"user-{number:07}" for number in range(count)], dtype="str")
    many = Scores(users=users, by_metric={metric: np.linspace(0, 1, count) for metric in ("a", "b", "c")})
    claim = claimed(store)
    stored = result(claim, scores=many)

    tracemalloc.start()
    assert store.runs.finish(stored, receivers=())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1.5e6, "1,000 users at once, not 10,000, whose names and numbers alone are 2 MB"
    assert len(store.history.run_scores(claim.run_id, ["b"]).users) == count


def test_all_scores_of_a_run_come_by_user_with_nan_where_undefined(store: SqlStore) -> None:
    run_id = store_scores(store, {"tau": {"b": 0.5, "a": NAN, "\u2400c": 1.0}, "rbo": {"b": 0.25, "a": 0.75, "\u2400c": 0.0}})
    store_scores(store, {"tau": {"other": 1.0}}, 1)

    found = store.history.run_scores(run_id, ["tau", "unknown", "rbo", "tau"])

    assert list(found.users) == ["a", "b", "\u2400c"]
    assert list(found.by_metric) == ["tau", "rbo"]
    np.testing.assert_array_equal(found.by_metric["tau"], [NAN, 0.5, 1.0])
    np.testing.assert_array_equal(found.by_metric["rbo"], [0.75, 0.25, 0.0])


def test_a_run_without_scores_of_a_metric_has_no_users_in_it(store: SqlStore) -> None:
    run_id = store_scores(store, {"tau": {"a": 0.5}})
    for number, metrics in ((run_id, ["rbo"]), (run_id, []), (run_id + 1, ["tau"])):
        nothing = store.history.run_scores(number, metrics)
        assert (len(nothing.users), dict(nothing.by_metric)) == (0, {})
