"""Per-user scores: in fast, out by user and by rank, and by SQL."""

import numpy as np
import pandas as pd
from sqlalchemy import text

from factories import HOUR, SLOT
from monitor.model.runs import Scores
from monitor.storage import SqlStore, score_rows
from monitor.storage import user_scores as per_user
from storage.worked import claimed, finish, run, scores

NAN = float("nan")


def store_scores(
    store: SqlStore,
    values: dict[str, dict[str, float]],
    hours: int = 0,
    comparison: str = "home-feed",
) -> int:
    return run(store, SLOT + hours * HOUR, comparison=comparison, scores=scores(values))


def test_batches_of_users_in_any_order_and_of_more_metrics_than_a_row_holds_join_without_loss(
    store, monkeypatch
):
    monkeypatch.setattr(score_rows, "CHUNK", 7)
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
    claim = claimed(store)
    with store.database.write() as connection:
        per_user.store_scores(
            connection,
            claim.run_id,
            SLOT,
            (
                Scores(
                    users=pd.Index([users[row] for row in part]),
                    by_metric={m: v[part] for m, v in values.items()},
                )
                for part in rows
            ),
        )

    found = store.history.run_scores(claim.run_id, list(values))

    order = [users.index(user) if len(user) < 70 else 1 for user in found.users]
    assert sorted(order) == list(range(len(users)))
    for metric, column in values.items():
        np.testing.assert_array_equal(found.by_metric[metric], column[order])


def test_metrics_that_are_measured_later_replace_their_own_scores_and_no_others(store):
    run_id = store_scores(store, {"tau": {"a": 0.1, "b": 0.2}, "rbo": {"a": 0.3, "b": 0.4}})
    for later in (
        {"ndcg": {"a": 0.5}},
        {"ndcg": {"a": 0.6}},
        {"rbo": {"b": 0.7}, "ndcg": {"b": NAN}},
    ):
        with store.database.write() as connection:
            per_user.replace_scores(connection, run_id, SLOT, scores(later))

    with store.database.read() as connection:
        rows = connection.execute(
            text("SELECT user_id, metric, value FROM user_scores ORDER BY metric, user_id")
        ).all()
        assert connection.execute(text("SELECT count(*) FROM scores")).scalar_one() == 3
    assert [tuple(row) for row in rows] == [
        ("b", "ndcg", None),
        ("b", "rbo", 0.7),
        ("a", "tau", 0.1),
        ("b", "tau", 0.2),
    ]


def test_a_run_without_users_or_without_scores_of_a_metric_has_no_scores_of_it(store):
    nobody = Scores(users=pd.Index([], dtype="str"), by_metric={"tau": np.array([])})
    without_users = finish(store, claimed(store, SLOT + HOUR), scores=nobody)
    assert without_users
    run_id = store_scores(store, {"tau": {"a": 0.5}})
    for number, metrics in ((without_users, ["tau"]), (run_id, ["rbo"]), (run_id, [])):
        nothing = store.history.run_scores(number, metrics)
        assert (len(nothing.users), dict(nothing.by_metric)) == (0, {})
