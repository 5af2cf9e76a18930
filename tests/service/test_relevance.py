"""Relevance that arrives two days late, novelty and churn over real lists, against literal recomputations."""

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from drift_lists import compare, lists_folder, write_config
from factories import DAY, HOUR, HeldClock
from monitor import __version__
from monitor.cli.main import app
from monitor.export.publisher import PrometheusPublisher
from monitor.model.runs import RunResult
from monitor.service.commands.one_shot import OneShot
from monitor.service.composition import Wiring, wire
from monitor.service.daemon.daemon import Daemon
from monitor.settings.loader import load_settings
from monitor.storage import SqlStore, open_store
from servers.daemon import wait_for
from storage.worked import record

K = 10
DAYS = [datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 8)]
NDCG, RECALL = ("ndcg(arm=candidate, gain=linear)@10", "recall(arm=baseline)@10")

MEASURED = """    users: {{all: true, segments: [country]}}
    metrics: [extended_tau, "ndcg(arm=candidate)@10", "recall(arm=baseline)@10"]
    arm_metrics: [catalogue_coverage, self_churn, novelty]
    relevance:
      within: {within}
      file: {{path: "{bought}/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items, grades: grades}}
"""


def clock_on(day: datetime) -> HeldClock:
    return HeldClock(day + HOUR)


@dataclass
class Shop:
    """One comparison on its database, and the folder into which purchases arrive."""

    store: SqlStore
    wiring: Wiring
    bought: Path
    clock: HeldClock = field(default_factory=lambda: clock_on(DAYS[0]))

    @property
    def service(self) -> OneShot:
        publisher = PrometheusPublisher(version=__version__)
        return OneShot(wiring=self.wiring, store=self.store, publisher=publisher, clock=self.clock)

    def run(self, day: datetime) -> RunResult:
        self.clock.at = max(self.clock.at, day + HOUR)
        (result,) = self.service.run_once("shop", day)
        assert isinstance(result, RunResult), result
        return result

    def arrive(self, day: datetime) -> None:
        shutil.copy(lists_folder() / "relevance" / f"{day:%Y-%m-%d}.parquet", self.bought)

    def fill(self) -> list[tuple[datetime, bool]]:
        return [(each.run.slot, bool(each.summaries)) for each in self.service.backfill("shop", None, None)]


def write(folder: Path, within: str = "7d") -> Path:
    (folder / "bought").mkdir()
    measured = MEASURED.format(bought=folder / "bought", within=within)
    return write_config(folder, compare("shop", measured, candidate="ok-seed"))


@contextmanager
def shopping(folder: Path) -> Iterator[Shop]:
    settings = load_settings(write(folder))
    with closing(wire(settings)) as wiring, closing(open_store(settings.database, create=True)) as store:
        yield Shop(store=store, wiring=wiring, bought=folder / "bought")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with shopping(tmp_path) as shop:
        yield shop


@cache
def lists_of(name: str, day: datetime) -> dict[str, list[int]]:
    frame = pd.read_parquet(lists_folder() / name / f"{day:%Y-%m-%d}.parquet")
    return {user: [int(item) for item in items][:K] for user, items in zip(frame.user_id, frame["items"], strict=True)}


@cache
def grades_of(day: datetime) -> dict[str, dict[int, float]]:
    frame = pd.read_parquet(lists_folder() / "relevance" / f"{day:%Y-%m-%d}.parquet")
    return {
        user: {int(item): float(grade) for item, grade in zip(items, grades, strict=True)}
        for user, items, grades in zip(frame.user_id, frame["items"], frame.grades, strict=True)
    }


def ndcg(ranking: list[int], grades: dict[int, float]) -> float | None:
    """Jarvelin and Kekalainen 2002 with the logarithm of base 2 and linear gains, term by term."""
    best = sorted(grades.values(), reverse=True)[:K]
    ideal = sum(grade / math.log2(place + 2) for place, grade in enumerate(best))
    found = sum(grades.get(item, 0.0) / math.log2(place + 2) for place, item in enumerate(ranking))
    return found / ideal if ideal > 0 else None


def recall(ranking: list[int], grades: dict[int, float]) -> float | None:
    relevant = {item for item, grade in grades.items() if grade > 0}
    return len(relevant & set(ranking)) / len(relevant) if relevant else None


def expected(day: datetime) -> dict[str, dict[str, float | None]]:
    """Scores by metric and user, None where nothing is known of the user."""
    baseline, candidate, grades = lists_of("baseline", day), lists_of("ok-seed", day), grades_of(day)
    users = baseline.keys() & candidate.keys()
    return {
        NDCG: {user: ndcg(candidate[user], grades.get(user, {})) for user in users},
        RECALL: {user: recall(baseline[user], grades.get(user, {})) for user in users},
    }


def assert_labelled(store: SqlStore, day: datetime) -> None:
    run = next(run for run in store.history.runs(comparison="shop", limit=99) if run.slot == day)
    summaries = {(each.segment, each.metric): each for each in record(store, run.id).summaries}
    assert run.labelled_at is not None
    for metric, by_user in expected(day).items():
        defined = [value for value in by_user.values() if value is not None]
        stored = store.history.run_scores(run.id, [metric])
        found = {user: value for user, value in zip(stored.users, stored.by_metric[metric], strict=True) if not np.isnan(value)}
        assert found == pytest.approx({user: value for user, value in by_user.items() if value is not None}, abs=1e-12)
        whole = summaries["all", metric]
        assert (whole.n, whole.n_undefined) == (len(defined), len(by_user) - len(defined))
        assert whole.mean == pytest.approx(math.fsum(defined) / len(defined), abs=1e-12)
        assert summaries["country=UK", metric].n + summaries["country=nonUK", metric].n == whole.n


def test_labels_that_arrive_two_days_later_are_measured_per_user_as_by_hand(shop: Shop) -> None:
    labelled: list[datetime] = []
    for day in DAYS:
        shop.clock.at = day + HOUR
        if day - 2 * DAY in DAYS:
            shop.arrive(day - 2 * DAY)
        result = shop.run(day)
        assert (result.status, result.reason, result.is_labelled) == ("ok", None, False)
        labelled += [slot for slot, is_labelled in shop.fill() if is_labelled]
    assert labelled == DAYS[:-2]
    for day in labelled:
        assert_labelled(shop.store, day)
    assert [run.slot for run in shop.store.runs.awaiting_relevance("shop", since=DAYS[0])] == DAYS[-2:]
    assert shop.store.history.latest(["shop"])[0].unlabelled == 2
    assert shop.fill() == [(DAYS[-2], False), (DAYS[-1], False)]


def cli(*args: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(args), catch_exceptions=True)
    assert done.exit_code == code, done.output
    return done.stdout


def test_the_command_tells_what_was_labelled_and_what_waits_since_when(tmp_path: Path) -> None:
    config = str(write(tmp_path, within="9999d"))
    cli("replay", "--config", config, "--from", "2024-01-01", "--to", "2024-01-03")
    shown = cli("show", "shop", "--config", config)
    assert "relevance: waiting for labels until" in shown
    assert "by chance: two random lists of 10 from a catalogue of" in shown
    assert "self_churn" in shown

    for day in DAYS[:2]:
        shutil.copy(lists_folder() / "relevance" / f"{day:%Y-%m-%d}.parquet", tmp_path / "bought")
    (first, second) = map(json.loads, cli("backfill", "shop", "--config", config, "--to", "2024-01-02", "--json").splitlines())
    assert [first["outcome"], second["outcome"]] == ["labelled", "labelled"]
    assert first["summaries"][NDCG]["users"] == len([each for each in expected(DAYS[0])[NDCG].values() if each is not None])
    told = cli("backfill", "shop", "--config", config)
    assert "0 runs labelled now, 1 still waits, the oldest since 2024-01-03T00:00:00Z" in told
    assert "relevance: labelled" in cli("show", "shop", "--slot", "2024-01-02", "--config", config)
    found = json.loads(cli("show", "shop", "--slot", "2024-01-01", "--config", config, "--json"))
    assert {NDCG, RECALL} <= {each["metric"] for each in found["summaries"]}
    tau = next(each for each in found["summaries"] if each["metric"] == "extended_tau")
    assert tau["by_chance"] < -0.9
    assert {each["arm"] for each in found["arm_scores"]} == {"baseline", "candidate"}

    (tmp_path / "bought" / "2024-01-03.parquet").write_bytes(b"no parquet")
    assert "failed" in cli("backfill", "shop", "--config", config, code=3)


def test_a_comparison_without_relevance_or_name_is_refused_in_words(tmp_path: Path) -> None:
    config = write(tmp_path)
    done = CliRunner().invoke(app, ["backfill", "shop2", "--config", str(config)])
    assert "no comparison named 'shop2'" in str(done.exception)
    text = config.read_text()
    config.write_text(text[: text.index("    relevance:")].replace(', "ndcg(arm=candidate)@10", "recall(arm=baseline)@10"', ""))
    done = CliRunner().invoke(app, ["backfill", "shop", "--config", str(config)])
    assert "has no `relevance:` in the configuration" in str(done.exception)
    assert CliRunner().invoke(app, ["backfill", "shop", "--from", "2024-01-02", "--to", "2024-01-01"]).exit_code == 2


def test_the_daemon_measures_what_has_arrived_after_its_run(tmp_path: Path) -> None:
    with shopping(tmp_path) as earlier:
        earlier.run(DAYS[0])
        earlier.arrive(DAYS[0])
    with closing(open_store(f"sqlite:///{tmp_path}/rankwatch.db", create=False)) as store:
        with Daemon(tmp_path / "rankwatch.yaml", clock=clock_on(DAYS[1])) as daemon:
            daemon.start()
            wait_for(
                lambda: any(run.slot == DAYS[0] and run.labelled_at for run in store.history.runs(comparison="shop", limit=9)),
                "the labels",
            )
        assert_labelled(store, DAYS[0])
        assert [run.slot for run in store.runs.awaiting_relevance("shop", since=DAYS[0])] == [DAYS[1]]
