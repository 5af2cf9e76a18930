"""Tables joined and measured by a real Spark Connect server find what files find, and each failure is one sentence."""

import os
import signal
import sys
import time
from dataclasses import replace
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from factories import MINUTE, SECOND, SLOT
from monitor.boundary.slot_templates import fill_slot
from monitor.model.errors import SourceError, UnreadableError
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.rules import Keep
from monitor.model.statistics import NoiseFloor
from monitor.pipeline import run_measurement
from monitor.pipeline.accumulator import RemoteMeasurer
from monitor.sources.spark import SparkSourceOptions, SparkUsersOptions
from pipeline.test_user_batches import plain
from servers import missing
from servers.proxy import Proxy
from servers.spark import running_spark
from sources.file import test_joined
from sources.file.test_joined import (
    DAMAGED,
    SIZE,
    arms_of,
    asked_of,
    found,
    lists_of,
    rows_of,
    write,
)

try:
    from pyspark import cloudpickle

    from monitor.sources.spark import connect_session, joined
except ImportError:
    missing("pyspark is not installed: pip install 'rankwatch[spark]'")

pytestmark = [pytest.mark.early(200), pytest.mark.integration]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the executors have no tests


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with running_spark(tmp_path_factory.mktemp("spark")) as port:
        yield port


@pytest.fixture(scope="module")
def sessions():
    """The open session, if there is one, with what sends the program to it once."""
    opened = []
    yield opened
    for each, _ in opened:
        each.stop()


@pytest.fixture
def session(spark, sessions):
    """One for all tests that need none of their own: for each session executors start Pythons of its own."""
    if not sessions:
        opened = connect_session.SparkSession.builder.remote(f"sc://127.0.0.1:{spark}").create()
        sessions.append((opened, cache(connect_session.ship_program)))
    (opened, ship_program), *_ = sessions
    yield opened, ship_program
    if opened.client.is_closed:  # as the run did not end soon after its deadline
        opened.stop()  # else it stays the default session
        sessions.clear()


@pytest.fixture
def port(spark, session, monkeypatch):
    """What is read at this port opens the session, and leaves it open."""
    opened, ship_program = session
    monkeypatch.setattr(connect_session.SparkSession.Builder, "create", lambda _: opened)
    monkeypatch.setattr(connect_session, "_stop", lambda _: None)
    monkeypatch.setattr(connect_session, "ship_program", ship_program)
    return spark


def in_spark(arms, port, *files, **conf):
    """The same files, joined and measured in Spark: users, baseline, candidate, and the baseline's second lists."""
    named = {name.replace("_", "."): value for name, value in conf.items()}
    shared = {"remote": f"sc://127.0.0.1:{port}", "conf": named}
    left_out = {"follow_links", "format", "in_order", "max_bytes", "served"}
    users, *lists = (each.model_dump(exclude=left_out) | shared for each in files)
    given = lists_of(*(SparkSourceOptions(**each) for each in lists))
    asked = SparkUsersOptions(**users)
    return replace(arms, joined=joined.join_in_spark(given, asked, arms.dimensions))


def here_without_segments(files):
    return replace(arms_of(*files), dimensions=(), joined=None)


def without_segments(port, files, **conf):
    """Fewer queries, for tests that look at no segment."""
    return in_spark(here_without_segments(files), port, asked_of(files[0]), *files, **conf)


measure = partial(test_joined.measure, keep_scores=Keep.ALL, deadline=5 * MINUTE)


def test_spark_finds_what_files_give_to_the_last_bit(tmp_path, port, monkeypatch):
    """In long form. Other tests have wide form."""
    long = partial(write, form="long", spell=int, model_version="country")
    baseline, candidate, again = (
        long(tmp_path / f"{seed}.parquet", rows_of(seed, odd=True)) for seed in (1, 2, 3)
    )
    listed = rows_of(4, odd=False)
    asked = asked_of(write(tmp_path / "users.parquet", listed + listed[:20], "wide", int))
    arms = arms_of(baseline, candidate, asked, again)
    # More parts than are sent back as they are.
    monkeypatch.setattr(joined, "PARTS_HERE", 4)
    monkeypatch.setattr(joined, "_TOGETHER", 3)

    here = measure(arms, noise_floor=NoiseFloor.RETRAIN)
    measured = measure(
        in_spark(arms, port, asked, baseline, candidate, again), 12, noise_floor=NoiseFloor.RETRAIN
    )
    assert found(measured) == found(here)
    for name in ("coverage", "notes", "left_out"):
        assert getattr(measured, name) == getattr(here, name), name


def test_rows_above_max_unreadable_fail_the_run_as_in_files(port, files):
    baseline, candidate = files
    rows = pq.read_table(candidate.path).to_pylist()
    for row in rows[::10]:
        row["items"] = [1.5]
    pq.write_table(pa.Table.from_pylist(rows), candidate.path)
    spoiled = (baseline, candidate.model_copy(update={"max_unreadable": 0.01}))
    texts = []
    for arms in (arms_of(*spoiled), without_segments(port, spoiled)):
        with pytest.raises(UnreadableError, match=r"column 'items' .* 12 of ") as caught:
            measure(arms, 50)
        texts.append(caught.value.shown)
    assert texts[0] == texts[1]


def test_users_of_any_type_are_read_as_in_files_and_no_item_behind_k_counts(port, files):
    spells = (lambda n: Decimal(n or "0.50"), lambda n: b"%d" % n if n else b"\xff")
    for options, spell in zip(files, spells, strict=True):
        rows = pq.read_table(options.path).to_pylist()
        for row in rows:
            row["user"] = spell(int(row["user"].removeprefix("user-")))
            row["items"] = [*row["items"], None]
        pq.write_table(pa.Table.from_pylist(rows), options.path)
    here, measured = map(measure, (here_without_segments(files), without_segments(port, files)))
    assert (found(measured), measured.left_out) == (found(here), here.left_out)
    assert measured.coverage.all.paired == SIZE - 1


def test_the_same_users_are_sampled_and_only_those_kept_come_back(port, files):
    arms = arms_of(*files)
    both = (arms, in_spark(arms, port, asked_of(files[0]), *files))
    runs = [measure(arms, 70, keep_scores=5, keep_lists=6, subset_users=50).run for arms in both]
    for name in ("evidence", "arm_scores", "lists", "split", "explanation"):
        assert plain(getattr(runs[0], name)) == plain(getattr(runs[1], name)), name
    assert sum(len(each.users) for each in runs[1].scores) <= 5 * 3


def test_tables_of_the_catalogue_and_of_other_formats_are_read_as_files_are(
    port, session, files, tmp_path
):
    arms, name = here_without_segments(files), "lists_{slot:%Y%m%d}"
    opened, _ = session
    opened.read.parquet(files[0].path).write.saveAsTable(fill_slot(name, SLOT))
    opened.read.parquet(files[1].path).write.orc(f"{tmp_path}/orc")
    given: Any = {"remote": f"sc://127.0.0.1:{port}", "user": "user"}
    baseline = SparkSourceOptions(items="items", table=name, **given)
    candidate = SparkSourceOptions(items="items", path=f"{tmp_path}/orc", format="orc", **given)
    users = SparkUsersOptions(table=f"default.{name}", **given)
    joined_there = joined.join_in_spark(lists_of(baseline, candidate), users, arms.dimensions)
    in_tables = replace(arms, joined=joined_there)
    assert found(measure(in_tables)) == found(measure(arms))
    opened.sql(f"DROP TABLE {fill_slot(name, SLOT)}")
    with pytest.raises(SourceError, match=r"^default.lists_\d+ does not exist: check table"):
        measure(in_tables)


def with_fault(monkeypatch, fault):
    """Let executors do that first."""

    class Faulty(RemoteMeasurer):
        def measure(self, users):
            fault()
            return super().measure(users)

    monkeypatch.setattr(run_measurement, "RemoteMeasurer", Faulty)


def test_an_executor_that_is_killed_in_mid_run_costs_nothing(port, files, tmp_path, monkeypatch):
    mark = f"{tmp_path}/killed"

    def die_once():
        if not os.path.exists(mark):  # noqa: PTH110 - shipped by value
            os.mkdir(mark)  # noqa: PTH102
            os.kill(os.getpid(), signal.SIGKILL)

    with_fault(monkeypatch, die_once)
    measured = measure(without_segments(port, files), 50)
    monkeypatch.undo()
    assert found(measured) == found(measure(here_without_segments(files)))
    assert os.path.exists(mark)  # noqa: PTH110


def test_a_job_that_is_lost_fails_the_run_with_one_sentence(port, files, monkeypatch):
    with_fault(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(
        SourceError,
        match=r"^Spark at 127.0.0.1:\d+: the job was lost on the cluster, perhaps because an executor was",
    ):
        measure(without_segments(port, files))


def test_the_deadline_cancels_the_job_on_the_cluster(port, files, tmp_path, monkeypatch):
    beats = tmp_path / "beats"

    def work_on():
        while True:
            with open(beats, "a") as file:  # noqa: PTH123 - shipped by value
                file.write(".")
            time.sleep(0.05)

    with_fault(monkeypatch, work_on)
    with pytest.raises(
        SourceError,
        match="did not end in time and was cancelled: raise deadline, or give the cluster more",
    ):
        measure(without_segments(port, files), deadline=5 * SECOND)
    size = -1
    while beats.exists() and beats.stat().st_size != size:
        size = beats.stat().st_size
        time.sleep(1)


def before_measured(monkeypatch, act):
    wait = joined._MeasuredThere.measure

    def act_and_measure(*given):
        act()
        return wait(*given)

    monkeypatch.setattr(joined._MeasuredThere, "measure", act_and_measure)


def test_a_server_that_is_gone_in_mid_run_is_said(spark, files, monkeypatch):
    proxy = Proxy(spark)
    gone = without_segments(proxy.port, files)
    before_measured(monkeypatch, proxy.refuse)
    with pytest.raises(
        SourceError,
        match="no server answers: check remote, and check that Spark Connect runs there",
    ):
        measure(gone)
    proxy.close()


def test_a_candidate_that_cannot_be_read_is_unavailable_to_everybody(port, files):
    damage, reason = DAMAGED[2]
    damage(Path(files[1].path))
    measured = measure(without_segments(port, files))
    assert measured.coverage.all.users_by_reason[Arm.CANDIDATE, CoverageReason.UNAVAILABLE] == SIZE
    assert reason in measured.notes[Arm.CANDIDATE, CoverageReason.UNAVAILABLE].text


def test_a_table_that_is_replaced_while_it_is_read_ends_the_run(port, files, monkeypatch):
    table = pq.read_table(files[0].path).slice(0, 9)
    before_measured(monkeypatch, lambda: pq.write_table(table, files[0].path))
    with pytest.raises(
        SourceError,
        match=(
            "was replaced while it was read: repeat the run of this slot, and from now on replace "
            "the whole table in one transaction"
        ),
    ):
        measure(without_segments(port, files))


def test_an_executor_without_numpy_says_what_to_install(spark, files, tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(
        SourceError,
        match=r"has no (numpy|pandas|pyarrow).*: install numpy>=2, pandas>=3 and pyarrow>=18 for it",
    ):
        measure(without_segments(spark, files, spark_sql_execution_pyspark_python=str(bare)))
