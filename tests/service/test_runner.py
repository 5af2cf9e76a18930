"""Runs as the service's logs and a dead-man's switch hear of them.

Scores that wait on disk; several installations.
"""

import io
import json
import sys
from contextlib import closing
from functools import partial
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import structlog

from commands import rankwatch
from factories import comparison, pull
from monitor.boundary import temporary_database
from monitor.model.errors import DatabaseError, OutputError
from monitor.model.runs import RunStatus, Scores
from monitor.pipeline.run_scores import RunScores
from monitor.service import runner as runner_module
from monitor.service.logs import configure_logs
from monitor.storage import open_store, score_spool
from monitor.storage.score_spool import DuckSpool
from pipeline.canned import arms, users
from servers.healthchecks import CHECK, signals_of
from service.lists_world import write_world
from service.single_runs import run_slot, watch
from storage.worked import runs_of


def run(store, lists, ping):
    """A run of four users. So many of them have lists."""
    some = pull({user: [1] for user in "abcd"[:lists]})
    watched = watch(arms(some, some, users(*"abcd")), comparison(rules=()))
    run_slot(store, watched, pings=(ping,), patience_s=0.1)


def failure(ping):
    """Why the run failed, or None. Its start and end were pinged."""
    assert [name for name, *_ in ping.mock_calls] == ["run_started", "run_finished"]
    reason: str | None = ping.run_finished.call_args.args[1]
    return reason


def test_an_insufficient_run_pings_a_failure_and_a_finished_slot_pings_nothing(store):
    first = Mock()
    second = Mock()
    run(store, 1, first)
    run(store, 4, second)
    assert failure(first).startswith("insufficient: ")
    assert not second.mock_calls


def test_a_result_that_cannot_be_stored_pings_a_failure(store, monkeypatch):
    monkeypatch.setattr(store.runs, "finish", Mock(side_effect=DatabaseError("the disk is full")))
    with pytest.raises(DatabaseError):
        run(store, 4, ping := Mock())
    assert failure(ping) == "the disk is full"


def test_run_once_pings_and_replay_does_not(tmp_path, url, collector):
    pings = f'pings: [{{url: "{collector.url}{CHECK}"}}]\n'
    config = write_world(tmp_path, url, receivers=pings)
    for command in ("replay --since 2024-01-07 --until 2024-01-07", "run-once --slot 2024-01-08"):
        assert rankwatch(f"{command} --config {config}").returncode == 0
    assert [signal.kind for signal in signals_of(collector.requests)] == ["start", "success"]


def test_a_rerun_is_logged_with_its_own_attempt_and_number(store, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logs("json", "info")
    opened = arms("a:12", "a:21")
    for _ in range(2):
        run_slot(store, watch(opened, comparison(k=2), is_live=True), rerun=True)

    lines = map(json.loads, stream.getvalue().splitlines())
    logged = [(line["event"], line["attempt"], line["run"]) for line in lines]
    stored = {run.comparison: run.id for run in runs_of(store)}
    assert logged == [
        ("run finished", 1, stored["home-feed@1"]),
        ("run finished", 2, stored["home-feed"]),
    ]
    assert not structlog.contextvars.get_contextvars()


# ------ scores that wait on disk


def scores(names, **metrics):
    return Scores(
        users=pd.Index(names.split(), dtype="str"),
        by_metric={name: np.array(found) for name, found in metrics.items()},
    )


def test_scores_on_disk_are_read_in_order_with_every_metric_and_repeatedly(spill):
    for held in (0, 3, 99):
        with closing(RunScores(DuckSpool, held)) as gathered:
            gathered.add(scores("d a \u00fc", tau=[0.25, 0.5, np.nan]))
            gathered.add(scores("c Z b", tau=[1.0, 2.0, 3.0], Tau=[4.0, np.nan, 6.0]))
            assert bool(list(spill.iterdir())) is (held < 6)
            for _ in range(2):
                (found,) = gathered
                assert list(found.users) == ["Z", "a", "b", "c", "d", "\u00fc"]
                np.testing.assert_array_equal(
                    found.by_metric["tau"], [2.0, 0.5, 3.0, 1.0, 0.25, np.nan]
                )
                np.testing.assert_array_equal(
                    found.by_metric["Tau"], [np.nan, np.nan, 6.0, 4.0, np.nan, np.nan]
                )
        assert not list(spill.iterdir())


@pytest.mark.integration
@pytest.mark.usefixtures("spill")
def test_scores_that_do_not_fit_on_disk_are_one_error(monkeypatch):
    monkeypatch.setattr(score_spool, "SPOOL_MEMORY", "8MB")
    monkeypatch.setattr(temporary_database, "SPILL", "1MB")
    count = 10**6
    many = scores(
        " ".join(map(str, range(count))), tau=np.random.default_rng(3).random(count).tolist()
    )
    with (
        closing(RunScores(DuckSpool, 0)) as gathered,
        pytest.raises(OutputError, match="or set keep_scores"),
    ):
        gathered.add(many)


class FullSpool(DuckSpool):
    """Takes scores, and cannot give them back."""

    def blocks(self):
        """Begins well."""
        yield next(super().blocks())
        msg = "the disk is full"
        raise OutputError(msg)


@pytest.mark.usefixtures("spill")
def test_a_run_whose_scores_cannot_be_read_back_fails_and_stores_no_scores(store, monkeypatch):
    monkeypatch.setattr(runner_module, "_open_spool", FullSpool)
    monkeypatch.setattr(runner_module, "RunScores", partial(RunScores, users_in_memory=5))
    names = [f"user-{number:02}" for number in range(20)]
    lists = pull({name: [1, 2, 3] for name in names})
    run_slot(store, watch(arms(lists, lists, users(*names)), comparison(k=3)))
    (found,) = runs_of(store)
    assert found.status == RunStatus.FAILED
    assert found.reason == "the disk is full"
    assert not store.history.run_scores(found.id, ["extended_tau"]).by_metric


# ------ several installations


def test_a_database_keeps_its_id(store):
    found = store.alerts.installation(create=True)
    with closing(
        open_store(store.database.url.render_as_string(hide_password=False), create=False)
    ) as again:
        assert again.alerts.installation(create=False) == found
        assert len(found) == 32
