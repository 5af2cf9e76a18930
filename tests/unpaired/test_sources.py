"""Logs of A/B tests in all formats: the users of each arm, and the lists that are compared."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from commands import rankwatch
from factories import DAY, HOUR, MINUTE, comparison
from monitor.boundary.deadline import interrupt_when_given_up
from monitor.model.errors import ConfigError, SourceError
from monitor.model.memory import Memory
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.unpaired import ArmCounts
from monitor.pipeline.run_assessment import find_unpaired_obstacles
from monitor.pipeline.run_measurement import measure_slot
from monitor.pipeline.stopwatch import Stopwatch
from monitor.service.composition import open_wiring, require_reloadable
from monitor.sources.sql.database import ReadOnlyDatabase
from pipeline.canned import StillClock
from settings.minimal import load_text
from sources.file.test_joined import second_ring
from sources.tables import WRITERS, database
from tables import cells
from unpaired import world
from unpaired.world import BEGINS

SLOT = BEGINS + 3 * DAY
COLUMNS = ("at", "user", "variant", "country", "request", "items")


def log_rows():
    """Users 0 to 59 of a, then 60 to 89 of b, and what logs have besides."""
    rows = []
    for number in range(90):
        user = f"u{number:02}"
        arm = "a" if number < 60 else "b"
        country = ("UK", "FR")[number % 2]
        before = [f"i{number % 7}", "x", "y"]
        now = before if number % 3 else ["new", *before[:2]]
        rows.append((BEGINS, user, "a", country, "1", before))
        # Requests are heavy-tailed, and the newest list is the last one of them.
        for request in range(1 + 40 // (1 + number)):
            at = SLOT - 20 * HOUR + 5 * request * MINUTE
            rows.append((at, user, arm, country, f"{request:04}", ["older", str(request)]))
        rows.append((SLOT - HOUR, user, arm, country, "9999", now))
    tied = SLOT - 30 * MINUTE
    rows += [
        # Two lists of one time: the greater request is the newer one.
        (tied, "u05", "a", "FR", "r1", ["wrong"]),
        (tied, "u05", "a", "FR", "r2", ["right", "x"]),
        # Another arm served this user too, on the first day of the test.
        (BEGINS + HOUR, "u89", "a", "FR", "1", ["x"]),
        # Too old, too new, and served by arm a before the test.
        (BEGINS - 91 * DAY, "u00", "a", "UK", "1", ["too old"]),
        (SLOT + HOUR, "u60", "b", "UK", "1", ["too new"]),
        (BEGINS - HOUR, "only-before", "a", "UK", "1", ["x"]),
        # Without a pre-test list
        (SLOT - HOUR, "newcomer", "b", "UK", "1", ["x", "y"]),
    ]
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def write_log(kind, folder, rows):
    """The place of the log, as options of a source. Only Parquet has a type for times."""
    if kind != "parquet":
        rows = [row | {"at": row["at"].isoformat()} for row in rows]
    return WRITERS[kind](rows, folder)


def settings_of(source, **changes):
    """A configuration with one comparison over the log."""
    served = {"time": "at", "within": "1d", "request": "request"}
    ((kind, place),) = source.items()
    options = {
        "log": {kind: {"user": "user", "items": "items", "served": served, **place}},
        "arm": "variant",
        "baseline": "a",
        "candidate": "b",
        "split": {"a": 0.67, "b": 0.33},
        "before": BEGINS.isoformat(),
        "segments": ["country"],
        **changes,
    }
    return load_text(f"""comparisons:
  - name: test
    every: 1d
    k: 3
    metrics: [overlap]
    unpaired: {json.dumps(options)}
""")


def measured(source, **changes):
    """One run over the log."""
    return run_of(*open_wiring(settings_of(source, **changes)).watched.values())


def run_of(watched) -> Any:
    """One run of the comparison."""
    clock = Stopwatch(StillClock())
    return measure_slot(watched.comparison, watched.sources, SLOT, Memory(), clock).run


@cache
def measured_parquet():
    """One run over the log in Parquet, with which other formats are compared."""
    with TemporaryDirectory() as folder:
        return measured(write_log("parquet", Path(folder), log_rows()))


def seen(run):
    """What has to be equal in all formats."""
    means = {(each.segment, each.metric): (each.n, each.mean) for each in run.summaries}
    return run.unpaired, run.coverage, means


KINDS = ["csv", "jsonl", "sqlite", second_ring("parquet")]


def test_each_users_newest_list_of_one_arm_is_compared_with_the_users_last_list_of_before():
    found = measured_parquet()

    # u89 switched, and the newcomer has no pre-test list.
    assert found.unpaired.users == {
        Arm.BASELINE: ArmCounts(assigned=60, served=60, compared=60),
        Arm.CANDIDATE: ArmCounts(assigned=30, served=30, compared=29),
    }
    assert found.unpaired.switched == 1
    means = {(each.segment, each.metric): each for each in found.summaries}
    # 20 of 60 lists have one new item of three, and so have 9 of 29. Of u05, one of three is left.
    assert means["all", "baseline_self(overlap)"].mean == pytest.approx(
        (39 + 20 * 2 / 3 + 1 / 3) / 60
    )
    assert means["all", "candidate_self(overlap)"].mean == pytest.approx((19 + 10 * 2 / 3) / 29)
    assert means["country=UK", "baseline_self(overlap)"].n == 30


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_gives_the_same_results_in_each_format(tmp_path, kind):
    source = write_log(kind, tmp_path, log_rows())
    assert seen(measured(source)) == seen(measured_parquet())


def test_a_database_is_asked_once_for_the_lists_of_both_arms_and_once_for_those_of_before(
    tmp_path, monkeypatch
):
    asked = []
    read = ReadOnlyDatabase.read

    def count(*given):
        asked.append(given[3])
        return read(*given)

    monkeypatch.setattr(ReadOnlyDatabase, "read", count)
    measured(write_log("sqlite", tmp_path, log_rows()))

    # The users' segment and arm are read with their current lists.
    assert sorted(len(columns) for columns in asked if "items" in columns) == [2, 4]


@pytest.mark.slow
def test_a_log_gives_the_same_results_in_postgresql(postgres_url):
    source = database(log_rows(), postgres_url, {"at": sa.TIMESTAMP(timezone=True)})
    assert seen(measured(source)) == seen(measured_parquet())
    with pytest.raises(SourceError, match=r"'at' of .* has no type for times"):
        measured(database(log_rows(), postgres_url, {"at": sa.Text()}))


@pytest.mark.slow
@pytest.mark.parametrize("kind, assigned_in", [("parquet", "csv"), ("jsonl", "sqlite")])
def test_users_that_were_assigned_but_never_served_count(tmp_path, kind, assigned_in):
    """A newer list of the other arm is not this user's list."""
    other = {"at": SLOT - 5 * MINUTE, "user": "u60", "variant": "a", "items": ["wrong"]}
    source = write_log(kind, tmp_path, [*log_rows(), log_rows()[0] | other])
    assigned = []
    for number in range(100):
        row = {"at": BEGINS + HOUR, "user": f"u{number:02}", "country": "UK"}
        assigned.append(row | {"variant": "ab"[number >= 60]})
    (tmp_path / "assigned").mkdir()
    ((place, options),) = write_log(assigned_in, tmp_path / "assigned", assigned).items()
    users = {**options, "user": "user", "served": {"time": "at"}}

    found = measured(source, assignments={place: users})

    # Not even u89 switched: only the assignments say so.
    assert found.unpaired.users[Arm.CANDIDATE] == ArmCounts(assigned=40, served=30, compared=30)
    assert found.unpaired.switched == 0
    # The newest list of u60 came from the other arm. This is more than 1 %.
    assert (found.unpaired.served_by_other, found.unpaired.served_by_any) == (1, 90)
    (obstacle,) = find_unpaired_obstacles(comparison(), found.unpaired, ())
    assert obstacle.kind == "served_by_other"
    means = {each.metric: each.mean for each in found.summaries if each.segment == "all"}
    # One of three lists has one new item of three.
    assert means["candidate_self(overlap)"] == pytest.approx((20 + 10 * 2 / 3) / 30)
    assert found.coverage.all.users_by_reason[Arm.CANDIDATE, CoverageReason.MISSING] == 10
    assert {each.segment for each in found.summaries} == {"all", "country=UK"}

    users["user_ids"] = [{"prefix": "u"}]
    respelled = measured(source, assignments={place: users}).id_mismatches
    assert [each.kind for each in respelled] == ["prefix", "prefix"]


@pytest.mark.slow
def test_a_log_is_written_while_it_is_read(tmp_path, monkeypatch):
    """Rows that are added between two reads of a run change no result, in a file and in a folder."""
    rows = log_rows()
    first = seen(measured_parquet())
    from monitor.sources.file import joined  # noqa: PLC0415 - changed here

    for kind in ("csv", "parquet"):
        folder = tmp_path / f"parts-{kind}"
        folder.mkdir()
        source = write_log(kind, folder, rows)
        path, opened = Path(source["file"]["path"]), joined.open_database

        def grow(*given, path=path, opened=opened, **options):
            if path.suffix == ".csv":
                with path.open("a", newline="") as file:
                    file.write(f"{SLOT + HOUR},u60,b,UK,1,[]\r\n")
            else:
                parts = len(list(path.parent.iterdir()))
                pd.DataFrame(rows[:1]).to_parquet(path.with_stem(f"{parts}"))
            return opened(*given, **options)

        with monkeypatch.context() as patched:
            patched.setattr(joined, "open_database", grow)
            assert seen(measured({"file": {"path": str(folder)}})) == first


EMPTY_ARMS = r"""
    {"candidate": "c", "split": {"a": 0.5, "c": 0.5}}  has no row with variant = 'c': check the name
    {"before": "2026-11-03T23:45"}  after 2026-11-03T23:45:00Z and up to .*newest row has the time 2026-11-03.23:30:00
    {"before": "2026-11-04"}  the test began at 2026-11-04T00:00:00Z, so it has no users at this slot
    {"arm": "a"}  column.*\ba\b
    {"arm": "request", "baseline": "0000", "candidate": "9999", "split": {"0000": 0.5, "9999": 0.5}}  no user .*because 90
"""


@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_an_arm_without_rows_is_named_by_its_column_and_value(tmp_path, kind):
    source = write_log(kind, tmp_path, log_rows())
    for changes, problem in cells(EMPTY_ARMS):
        with pytest.raises(SourceError, match=problem):
            measured(source, **json.loads(changes))


def test_lists_are_not_read_to_their_end_if_an_arm_has_no_user(tmp_path, monkeypatch):
    was_ended = Event()

    def hang(*_):
        with interrupt_when_given_up(was_ended.set):
            was_ended.wait()

    monkeypatch.setattr("monitor.sources.sql.log._LoggedLists._read_all", hang)
    with pytest.raises(SourceError):
        measured(write_log("sqlite", tmp_path, log_rows()), before="2026-11-03T23:45")
    assert was_ended.wait(60)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_a_user_counts_once_even_if_late_rows_arrive_during_a_run(tmp_path, kind, monkeypatch):
    """The newest list of u60 becomes one of the other arm, after the assigned users were read."""
    rows = log_rows()
    source = write_log(kind, tmp_path, rows)
    (watched,) = open_wiring(settings_of(source)).watched.values()
    unpaired: Any = watched.sources.unpaired
    assigned = unpaired.assigned
    found_before = assigned.assigned(SLOT)
    late = {"at": SLOT - MINUTE, "user": "u60", "variant": "a"}
    write_log(kind, tmp_path, [*rows, rows[0] | late])

    monkeypatch.setattr(type(assigned), "assigned", lambda *_: found_before)
    found = run_of(watched)

    assert found.coverage.all.asked == 90
    assert sum(each.served for each in found.unpaired.users.values()) == 90


def test_a_log_with_a_half_character_is_refused_and_its_user_is_not_quoted(tmp_path):
    source = write_log("jsonl", tmp_path, log_rows())
    with Path(source["file"]["path"]).open("a") as file:
        file.write(json.dumps({"at": SLOT.isoformat(), "user": "secret \ud83d"}) + "\n")

    with pytest.raises(SourceError, match=r"table\.jsonl cannot be read: its content") as caught:
        measured(source)
    assert "secret" not in str(caught.value)


def test_a_reload_with_another_split_is_refused_unless_the_test_begins_again():
    source, split = {"file": {"path": "log.csv"}}, {"a": 0.5, "b": 0.5}
    old, again = settings_of(source), settings_of(source, split=split, since="2026-11-02")

    with pytest.raises(ConfigError, match=r"test: unpaired.split has changed"):
        require_reloadable(settings_of(source, split=split), old)
    assert require_reloadable(again, old) is again


def test_the_planned_split_of_earlier_runs_is_stored(tmp_path):
    world.write_log(tmp_path / "log.parquet", world.World(users=300), 2)
    config = world.write_config(tmp_path)
    rankwatch("run-once --slot 2026-11-02")
    config.write_text(config.read_text().replace("{a: 0.5, b: 0.5}", "{a: 0.6, b: 0.4}"))
    second = rankwatch("run-once --slot 2026-11-03")

    assert second.returncode == 3
    assert "earlier runs of this test planned 0.5" in second.stdout
