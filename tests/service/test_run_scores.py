"""The scores of a run come back by user, whatever order they came in, also where too many to be held wait on disk."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from factories import SLOT, comparison, pull
from monitor import scratch
from monitor.errors import OutputError
from monitor.model.runs import RunStatus, Scores
from monitor.pipeline.score import RunScores
from monitor.service import runner as running
from monitor.service.runner import Runner, Watched
from monitor.settings.schedule import Every
from monitor.storage import SqlStore, score_spool
from monitor.storage.score_spool import DuckSpool
from pipeline.canned import StillClock, arms, users


@pytest.fixture(autouse=True)
def spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "spill"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def scores(names: str, **metrics: list[float]) -> Scores:
    return Scores(
        users=pd.Index(names.split(), dtype="str"), by_metric={name: np.array(found) for name, found in metrics.items()}
    )


@pytest.mark.parametrize("held", [0, 3, 99])
def test_users_come_back_in_order_with_every_metric_as_often_as_they_are_read(held: int, spill: Path) -> None:
    with closing(RunScores(DuckSpool, held)) as gathered:
        gathered.add(scores("d a \u00fc", tau=[0.25, 0.5, np.nan]))
        gathered.add(scores("c Z b", tau=[1.0, 2.0, 3.0], Tau=[4.0, np.nan, 6.0]))
        assert bool(list(spill.iterdir())) is (held < 6)
        for _ in range(2):
            (found,) = gathered
            assert list(found.users) == ["Z", "a", "b", "c", "d", "\u00fc"]
            np.testing.assert_array_equal(found.by_metric["tau"], [2.0, 0.5, 3.0, 1.0, 0.25, np.nan])
            np.testing.assert_array_equal(found.by_metric["Tau"], [np.nan, np.nan, 6.0, 4.0, np.nan, np.nan])
    assert list(spill.iterdir()) == []


def test_scores_that_do_not_fit_on_disk_end_in_one_sentence(spill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_spool, "MEMORY", "8MB")
    monkeypatch.setattr(scratch, "SPILL", "1MB")
    count = 10**6
    many = scores(" ".join(map(str, range(count))), tau=np.random.default_rng(3).random(count).tolist())
    with closing(RunScores(DuckSpool, 0)) as gathered, pytest.raises(OutputError, match="TMPDIR says, or set keep_scores"):
        gathered.add(many)
    assert list(spill.iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(spill / "none"))
    with pytest.raises(OutputError, match="No such file or directory"):
        DuckSpool()


def no_spool() -> DuckSpool:
    msg = "the disk is full"
    raise OutputError(msg)


class FullSpool(DuckSpool):
    """Takes scores, and cannot give them back."""

    def batches(self) -> Iterator[Scores]:
        """Begins well."""
        yield next(super().batches())
        no_spool()


def run(store: SqlStore, held: int, monkeypatch: pytest.MonkeyPatch) -> RunStatus:
    monkeypatch.setattr(running, "RunScores", partial(RunScores, held_users=held))
    names = [f"user-{number:02}" for number in range(20)]
    baseline, candidate = (
        pull({name: [(7 * rank + step * number) % 23 for rank in range(3)] for number, name in enumerate(names)})
        for step in (1, 2)
    )
    watched = Watched(
        comparison=comparison(k=3), arms=arms(baseline, candidate, users(*names)), schedule=Every(timedelta(days=1))
    )
    done = Runner(store=store, clock=StillClock()).run(watched, SLOT, receivers=(), rerun=True)
    assert done is not None
    return done.status


def test_a_run_stores_the_same_scores_whether_they_are_held_or_wait_on_disk(
    store: SqlStore, spill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = []
    for held in (99, 5):
        assert run(store, held, monkeypatch) is RunStatus.OK
        (found,) = store.history.runs(comparison=None, limit=10)
        stored.append(store.history.run_scores(found.id, ["extended_tau", "rbo(p=0.9)"]))
        assert list(spill.iterdir()) == []
    assert list(stored[0].users) == list(stored[1].users)
    assert len(stored[0].users) == 20
    for metric, values in stored[0].by_metric.items():
        np.testing.assert_array_equal(values, stored[1].by_metric[metric])


@pytest.mark.parametrize("spool", [no_spool, FullSpool], ids=["cannot be opened", "cannot be read"])
def test_a_run_whose_scores_cannot_wait_fails_with_the_reason_and_stores_none(
    store: SqlStore, spill: Path, spool: Callable[[], DuckSpool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_open_spool", spool)
    assert run(store, 5, monkeypatch) is RunStatus.FAILED
    (found,) = store.history.runs(comparison=None, limit=10)
    assert (found.status, found.reason) == (RunStatus.FAILED, "the disk is full")
    assert store.history.run_scores(found.id, ["extended_tau"]).by_metric == {}
    assert list(spill.iterdir()) == []
