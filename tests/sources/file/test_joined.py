"""A join of files by user gives the results of pulling both files, for any content, in each format and in parts."""

import tempfile
import threading
from collections import ChainMap
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from numpy.random import default_rng

from factories import SLOT, comparison, rule
from monitor.boundary import temporary_database
from monitor.model.errors import SourceError
from monitor.model.memory import Memory
from monitor.model.rankings import Arm
from monitor.model.runs import JoinRequest
from monitor.model.statistics import NoiseFloor
from monitor.pipeline.accumulator import SUBSET_USERS
from monitor.pipeline.pull import ComparisonSources
from monitor.pipeline.run_measurement import measure_slot
from monitor.pipeline.stopwatch import Stopwatch
from monitor.sources.file import FileSourceOptions, FileUsersOptions, database, joined
from monitor.sources.file.joined import JoinedFiles
from monitor.sources.file.source import FileLists, FileUsers
from pipeline.canned import StillClock
from pipeline.test_user_batches import NOT_FOUND, plain
from servers.disk import small_disk
from servers.lists import as_lists, write_csv, write_jsonl

PLAN = comparison(
    k=4,
    metrics=("extended_tau", "rbo(p=0.9)", "footrule_normalized"),
    arm_metrics=("catalogue_coverage", "exposure_gini"),
    rules=(rule(metric="extended_tau", statistic="p10"),),
    evidence_users=3,
    max_segment_values=2,
)
REQUEST = JoinRequest(k=4, slot=SLOT, timeout_s=60, max_segment_values=2)
SIZE = 120
DIMENSIONS = ("country", "tier", "vip")
ODD = "odd"
"""Ids in an odd spelling, which options undo. One user occurs in two spellings."""
pytestmark = pytest.mark.usefixtures("spill")
second_ring = partial(pytest.param, marks=pytest.mark.integration)


def rows_of(seed, *, odd):
    """One row for each user. With ``odd``, some lists, items and users are null or empty, and some users occur twice."""
    rng = default_rng(seed)
    rows = []
    for place in rng.permutation(SIZE).tolist():
        country = [None, "", "DE", "FR", "IT", "UK"][place % 6]
        items = rng.choice(30, 5, replace=False).tolist()
        if odd and place % 10 == 0:
            items = [None, [], [1, None, 2], [7, 7, 8]][place // 10 % 4]
        row = {
            "user": f"user-{place:03}",
            "items": items,
            "country": country,
            "tier": place % 3 / 2,
            "vip": place % 2 == 0,
        }
        rows.append(row)
        if odd and place % 37 == 0:
            rows.append(row | {"items": [9, 8], "country": "UK", "tier": None, "vip": None})
    if odd:
        rows += [row | {"user": name, "items": [1, 2]} for name in (None, "", "x" * 2000)]
        rows = [row for place, row in enumerate(rows) if place % 13 or seed != 2]
    return rows


def write(path, rows, form, spell, **told):
    """One row for each list ("wide"), or for each item, with a rank ("long") or in order ("in order")."""
    if spell is int:
        number_of = {f"user-{place:03}": place for place in range(SIZE)}
        rows = [row | {"user": number_of.get(row["user"])} for row in rows]
    elif spell is ODD:
        told |= {"user_ids": ("strip", "lower"), "item_ids": ({"regex": "sku-(.*)"}, "int")}
        other = rows[0] | {"items": ["sku-1"]}
        rows = [
            row | {"user": f" {row['user'].upper()}", "items": [f"sku-00{i}" for i in row["items"]]}
            for row in rows
        ]
        rows.append(other)
    names = {"wide": ("items",), "long": ("item", "rank"), "in order": ("item",)}[form]
    if form != "wide":
        rows = [
            row | {"item": item, "rank": rank}
            for row in rows
            for rank, item in enumerate(row["items"] or [])
        ]
    columns = ("user", *names, *DIMENSIONS)
    WRITERS[path.suffix](pa.table({name: [row[name] for row in rows] for name in columns}), path)
    options = dict(zip(names, names, strict=True)) | told
    return FileSourceOptions(
        path=str(path),
        user="user",
        max_unreadable=1,
        in_order=form == "in order" or None,
        **options,
    )


def write_parquet(table, path):
    pq.write_table(table, path, row_group_size=64)


def write_parts(table, path):
    path.mkdir()
    (path / "_SUCCESS").touch()
    half = len(table) // 2
    for name, part in {"a": table[:half], "b": table[half:], "c": table[:0]}.items():
        pq.write_table(part, path / f"{name}.parquet")


WRITERS = {
    ".parquet": write_parquet,
    ".csv": lambda table, path: write_csv(table.to_pylist(), path),
    ".tsv": lambda table, path: pacsv.write_csv(table, path, pacsv.WriteOptions(delimiter="\t")),
    ".jsonl": lambda table, path: write_jsonl(table.to_pylist(), path),
    ".parts": write_parts,
}


def lists_of(*lists):
    """Baseline, candidate, and perhaps the baseline's second lists, by name."""
    return {
        name: each
        for name, each in zip(("baseline", "candidate", "noise_floor"), lists, strict=False)
        if each is not None
    }


def joined_files(*files):
    """These lists, for the users of the first file."""
    return JoinedFiles(lists_of(*files), asked_of(files[0]), ())


def joined_lists(source):
    """The lists of the candidate."""
    with source.read(REQUEST) as answers:
        lists = [as_lists(batch.candidate) for batch in answers.batches(30)]
    return dict(ChainMap(*lists))


def arms_of(baseline, candidate, users=None, second_baseline=None):
    """Arms over these files. Without ``users``, the users are those of the baseline."""
    users = users or asked_of(baseline)
    return ComparisonSources(
        baseline=FileLists(baseline),
        candidate=FileLists(candidate),
        users=FileUsers(users),
        dimensions=DIMENSIONS,
        second_baseline=None if second_baseline is None else FileLists(second_baseline),
        joined=JoinedFiles(lists_of(baseline, candidate, second_baseline), users, DIMENSIONS),
    )


def measure(arms, batch_users=10_000, slot=SLOT, subset_users=SUBSET_USERS, **changes):
    plan, watch = (
        replace(PLAN, measuring=replace(PLAN.measuring, **changes)),
        Stopwatch(StillClock()),
    )
    return measure_slot(
        plan, arms, slot, Memory(), watch, batch_users=batch_users, subset_users=subset_users
    )


def found(measurement):
    run = plain(measurement.run)
    (scores,) = run.pop("scores")
    by_user = {
        user: [values[row] for values in scores["by_metric"].values()]
        for row, user in enumerate(scores["users"])
    }
    return {
        **{name: value for name, value in run.items() if name not in NOT_FOUND},
        "scores": by_user,
    }


@pytest.mark.parametrize(
    "kept, spell, form, users, batch_users",
    [
        second_ring("parquet", int, "wide", "of the baseline", 29),
        second_ring("csv", str, "long", "of a file", 10_000),
        ("parquet", ODD, "wide", "of the baseline", 29),
        second_ring("csv", ODD, "long", "of a file", 29),
        second_ring("parts", str, "in order", "of a file", 29),
        second_ring("jsonl", int, "wide", "of the baseline", 10_000),
    ],
)
def test_a_join_finds_what_pulling_finds(tmp_path, kept, spell, form, users, batch_users):
    baseline, candidate, second_baseline = (
        write(
            tmp_path / f"{seed}.{kept}",
            rows_of(seed, odd=spell is not ODD),
            form,
            spell,
            model_version="country",
        )
        for seed in (1, 2, 3)
    )
    asked = asked_of(baseline)
    if users == "of a file":
        rows = rows_of(4, odd=spell is not ODD)
        asked = asked_of(write(tmp_path / f"users.{kept}", rows + rows[:20], "wide", spell))
    arms = arms_of(baseline, candidate, asked, second_baseline)

    pulled = measure(replace(arms, joined=None), noise_floor=NoiseFloor.RETRAIN)
    with pytest.MonkeyPatch.context() as patch:
        if batch_users < SIZE:  # as if there were many users
            patch.setattr(database, "MOST_SORTED", batch_users)
        joined = measure(arms, batch_users, noise_floor=NoiseFloor.RETRAIN)

    assert pulled.coverage.all.paired >= SIZE * 0.6
    assert {"DE", "FR", "IT", "UK"} == (pulled.run.models or {})[Arm.CANDIDATE].users.keys()
    assert found(joined) == found(pulled)
    for name in ("coverage", "left_out", "notes"):
        assert getattr(joined, name) == getattr(pulled, name), name


@pytest.fixture
def files(tmp_path):
    """Baseline and candidate, clean and wide."""
    baseline, candidate = (
        write(tmp_path / f"{seed}.parquet", rows_of(seed, odd=False), "wide", str)
        for seed in (1, 2)
    )
    return baseline, candidate


def asked_of(options):
    return FileUsersOptions(
        path=options.path, user=options.user, user_ids=options.user_ids, max_unreadable=1
    )


def holding(**columns):
    return lambda path: pq.write_table(pa.table(columns), path)


DAMAGED = [
    (Path.unlink, ", and check that the job which writes it has run"),
    (
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        "is incomplete, because it is cut off or still being written",
    ),
    (holding(user=["a"], lists=[[1]]), "has no column 'items': it has user, lists"),
]


@pytest.mark.parametrize("damage, reason", DAMAGED)
def test_a_candidate_that_cannot_be_read_is_unavailable_to_everybody(files, damage, reason):
    damage(Path(files[1].path))

    result = measure(arms_of(*files))

    assert result.coverage.all.users_by_reason == {(Arm.CANDIDATE, "unavailable"): SIZE}
    note = result.notes[Arm.CANDIDATE, "unavailable"].text
    assert files[1].path in note
    assert reason in note


@pytest.mark.parametrize(
    "damage, reason",
    [
        (Path.unlink, "does not exist"),
        (holding(user=[""], country=["DE"], tier=[1], vip=[True]), "has no user"),
        (holding(user=["a"]), "has no column 'country'"),
    ],
)
def test_without_users_nothing_is_measured(files, damage, reason):
    damage(Path(files[0].path))

    with pytest.raises(SourceError, match=reason):
        measure(arms_of(*files))


def test_second_lists_that_cannot_be_read_are_said_and_the_run_goes_on(files):
    baseline, candidate = files
    arms = arms_of(
        baseline, candidate, second_baseline=baseline.model_copy(update={"path": "gone.parquet"})
    )

    pulled = measure(replace(arms, joined=None), noise_floor=NoiseFloor.RETRAIN)
    joined = measure(arms, noise_floor=NoiseFloor.RETRAIN)

    assert (joined.left_out, joined.notes) == (pulled.left_out, {})
    assert joined.left_out[0].startswith("noise_floor: ")


def test_damage_in_the_middle_of_a_file_ends_the_run_with_its_reason(files):
    path = Path(files[1].path)
    content = path.read_bytes()
    start = len(content) // 3
    path.write_bytes(content[:start] + b"\0" * 400 + content[start + 400 :])

    with pytest.raises(SourceError, match="cannot be decoded") as caught:
        measure(arms_of(*files))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_replaced_while_it_is_read_ends_the_run(files):
    path = Path(files[1].path)

    copy = path.with_name("new")
    copy.write_bytes(path.read_bytes())

    def read_and_replace(answers):
        assert sum(len(batch.panel) for batch in answers.batches(50)) == SIZE
        copy.replace(path)

    with (
        pytest.raises(SourceError, match=r"2\.parquet was replaced while it was read"),
        joined_files(*files).read(REQUEST) as answers,
    ):
        read_and_replace(answers)


@pytest.mark.slow
def test_the_deadline_interrupts_a_join_again_and_again(files, monkeypatch):
    was_interrupted, interrupted_at = threading.Event(), database.interrupted_at

    def noted(deadline, interrupt):
        def interrupt_and_tell():
            interrupt()
            was_interrupted.set()

        return interrupted_at(deadline, interrupt_and_tell)

    def late(answers):
        assert was_interrupted.wait(60), "the first interrupt meets nothing to interrupt"
        # Nothing else is asked of the database: only another interrupt ends this.
        answers._database.execute(
            "SELECT count(*) FROM range(1000000000000) t(a) WHERE hash(a) = 1"
        )

    monkeypatch.setattr(database, "interrupted_at", noted)
    with (
        pytest.raises(
            SourceError, match="deadline passed before all files were read: raise deadline"
        ),
        joined_files(*files).read(replace(REQUEST, timeout_s=1)) as answers,
    ):
        late(answers)


@pytest.mark.parametrize("hung", ["held_files", "ListView"])
def test_a_disk_that_hangs_is_given_up_at_the_deadline(files, hung, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(joined, hung, lambda *_: release.wait(60))
    source = joined_files(*files)
    with pytest.raises(
        SourceError, match="deadline passed before all files were read: raise deadline"
    ):
        source.read(replace(REQUEST, timeout_s=0.2)).__enter__()
    release.set()


@pytest.mark.integration
def test_what_does_not_fit_into_memory_is_spilled_and_removed_and_a_full_disk_is_said(
    tmp_path, spill, monkeypatch
):
    users = [f"user-{number:06}-{'x' * 40}" for number in range(150_000)]
    rng, files = default_rng(1), []
    for name in ("baseline", "candidate"):
        lists = pa.array(list(rng.integers(0, 10**6, (len(users), 20))))
        path = f"{tmp_path}/{name}.parquet"
        file = FileSourceOptions(path=path, user="user", items="items")
        pq.write_table(pa.table({"user": rng.permutation(users), "items": lists}), file.path)
        files.append(file)
    monkeypatch.setattr(database, "MEMORY_MB", 60)
    source, asked = joined_files(*files), replace(REQUEST, k=20, timeout_s=300)
    with source.read(asked) as answers:
        assert sum(len(batch.candidate.rankings) for batch in answers.batches(5000)) == len(users)
        assert list(spill.iterdir())
    with small_disk(tmp_path / "small", "2m") as disk:
        for folder, most in ((disk, temporary_database.SPILL), (spill, "2MB")):
            assert not list(folder.iterdir())
            monkeypatch.setattr(tempfile, "tempdir", str(folder))
            monkeypatch.setattr(temporary_database, "SPILL", most)
            with (
                pytest.raises(SourceError, match=r"is full|more than 2MB"),
                source.read(asked) as answers,
            ):
                list(answers.batches(5000))
        assert not list(disk.iterdir())


@pytest.mark.parametrize(
    "columns, cells",
    [
        ({"user": "key", "item": "KEY_1", "rank": "rank"}, [1, 2]),
        ({"user": "segment_0", "items": "Here"}, [[1], [2]]),
    ],
)
def test_columns_may_have_any_name(tmp_path, columns, cells):
    user, item, *_ = columns.values()
    file = FileSourceOptions(path=f"{tmp_path}/lists.parquet", **columns)
    pq.write_table(pa.table({user: ["a", "b"], item: cells, "rank": [1, 1]}), file.path)

    source = JoinedFiles(lists_of(file, file), asked_of(file), ("rank",))

    assert joined_lists(source) == {"a": ["1"], "b": ["2"]}


@pytest.mark.usefixtures("own_databases")
def test_the_database_reads_its_files_and_nothing_else(files, tmp_path):
    other = tmp_path / "other.parquet"
    other.write_bytes(Path(files[0].path).read_bytes())
    source = joined_files(*files)

    with source.read(REQUEST) as answers:
        for forbidden in (
            f"SELECT * FROM '{other}'",
            f"COPY (SELECT 1) TO '{tmp_path / 'written.csv'}'",
            f"ATTACH '{tmp_path / 'made.db'}'",
            "INSTALL httpfs",
            "SET memory_limit = '100GB'",
            "SELECT * FROM read_csv('/etc/passwd')",
        ):
            with pytest.raises(duckdb.Error):
                answers._database.execute(forbidden)
    assert not (tmp_path / "written.csv").exists()
