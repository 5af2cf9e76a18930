"""Files joined by user find what pulling both of them finds, whatever stands in them, in each format and in parts."""

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from factories import SLOT, comparison, rule
from monitor import scratch
from monitor.errors import SourceError
from monitor.model.memory import Memory
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.runs import JoinRequest
from monitor.model.statistics import NoiseFloor
from monitor.pipeline.pull import Arms
from monitor.pipeline.run_measurement import Measurement, Stopwatch, measure_slot
from monitor.ports import JoinedAnswers
from monitor.sources.file import FileSourceOptions, FileUsersOptions, database, joined
from monitor.sources.file.joined import JoinedFiles
from monitor.sources.file.source import FileLists, FileUsers
from pipeline.canned import StillClock
from pipeline.test_user_batches import NOT_FOUND, plain
from servers.disk import small_disk
from servers.lists import as_lists, request, write_csv, write_jsonl

T = TypeVar("T")
PLAN = comparison(
    k=4,
    metrics=("extended_tau", "rbo(p=0.9)", "footrule_normalized"),
    arm_metrics=("catalogue_coverage", "exposure_gini"),
    rules=(rule(metric="extended_tau", statistic="p10"),),
    evidence_users=3,
    max_segment_values=2,
)
REQUEST = JoinRequest(k=4, slot=SLOT, timeout_s=60, max_segment_values=2)
SIZE = 200


def rows_of(seed: int, *, odd: bool) -> list[dict[str, Any]]:
    """A row a user; with ``odd`` also null and empty lists, null items, users twice, and rows without a user."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for place in rng.permutation(SIZE).tolist():
        country = [None, "", "DE", "FR", "IT", "UK"][place % 6]
        items: list[int | None] | None = rng.choice(30, 5, replace=False).tolist()
        if odd and place % 10 == 0:
            items = [None, [], [1, None, 2], [7, 7, 8]][place // 10 % 4]
        rows.append({"user": f"user-{place:03}", "items": items, "country": country, "tier": place % 3 / 2})
        if odd and place % 37 == 0:
            rows.append({"user": f"user-{place:03}", "items": [9, 8], "country": "UK", "tier": None})
    if odd:
        rows += [{"user": name, "items": [1, 2], "country": "DE", "tier": 0.0} for name in (None, "", "x" * 2000)]
        rows = [row for place, row in enumerate(rows) if place % 13 or seed != 2]
    return rows


def write(path: Path, rows: list[dict[str, Any]], form: str, spell: Any, **told: Any) -> FileSourceOptions:
    columns: dict[str, Any] = {"user": [row["user"] for row in rows]}
    if spell is int:
        columns["user"] = [None if not user or "-" not in user else int(user.split("-")[1]) for user in columns["user"]]
    if form == "wide":
        columns["items"] = [row["items"] for row in rows]
        more: dict[str, Any] = {"items": "items"}
    else:
        flat = [(row, item, rank) for row in rows for rank, item in enumerate(row["items"] or [])]
        columns["user"] = [columns["user"][rows.index(row)] for row, _, _ in flat]
        columns |= {"item": [item for _, item, _ in flat], "rank": [rank for _, _, rank in flat]}
        rows, more = [row for row, _, _ in flat], {"item": "item", "rank": "rank"}
        if form == "in order":
            del columns["rank"], more["rank"]
            more["in_order"] = True
    columns |= {name: [row[name] for row in rows] for name in ("country", "tier")}
    WRITERS[path.suffix](pa.table(columns), path)
    return FileSourceOptions(path=str(path), user="user", max_unreadable=1, **more, **told)


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=64)


def write_parts(table: pa.Table, path: Path) -> None:
    path.mkdir()
    (path / "_SUCCESS").touch()
    half = len(table) // 2
    for name, part in {"a": table[:half], "b": table[half:], "c": table[:0]}.items():
        pq.write_table(part, path / f"{name}.parquet")


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".parquet": write_parquet,
    ".csv": lambda table, path: write_csv(table.to_pylist(), path),
    ".tsv": lambda table, path: pacsv.write_csv(table, path, pacsv.WriteOptions(delimiter="\t")),
    ".jsonl": lambda table, path: write_jsonl(table.to_pylist(), path),
    ".parts": write_parts,
}


@pytest.fixture
def spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "spill"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def lists_of(*lists: T | None) -> dict[str, T]:
    """Baseline, candidate, and where they are given the baseline's second lists, by name."""
    return {name: each for name, each in zip(("baseline", "candidate", "noise_floor"), lists, strict=False) if each is not None}


def joined_files(*files: FileSourceOptions) -> JoinedFiles:
    """These lists, for the users of the first."""
    return JoinedFiles(lists_of(*files), asked_of(files[0]), ())


def arms_of(
    baseline: FileSourceOptions, candidate: FileSourceOptions, users: FileUsersOptions, again: FileSourceOptions | None = None
) -> Arms:
    return Arms(
        baseline=FileLists(baseline),
        candidate=FileLists(candidate),
        users=FileUsers(users),
        dimensions=("country", "tier"),
        again=None if again is None else FileLists(again),
        joined=JoinedFiles(lists_of(baseline, candidate, again), users, ("country", "tier")),
    )


def measure(arms: Arms, batch_users: int = 10_000, **changes: Any) -> Measurement:
    plan = replace(PLAN, measuring=replace(PLAN.measuring, **changes))
    return measure_slot(plan, arms, SLOT, Memory(), Stopwatch(StillClock()), batch_users=batch_users)


def found(measurement: Measurement) -> dict[str, Any]:
    run = plain(measurement.run)
    (scores,) = run.pop("scores")
    by_user = {user: [values[row] for values in scores["by_metric"].values()] for row, user in enumerate(scores["users"])}
    return {**{name: value for name, value in run.items() if name not in NOT_FOUND}, "scores": by_user}


@pytest.mark.parametrize(
    ("kept", "spell", "kind", "form", "users"),
    [
        ("parquet", str, "clean", "wide", "of the baseline"),
        ("parquet", int, "odd", "wide", "of the baseline"),
        ("parquet", int, "odd", "long", "of a file"),
        ("csv", str, "odd", "wide", "of a file"),
        ("csv", str, "odd", "long", "of the baseline"),
        ("jsonl", int, "odd", "wide", "of the baseline"),
        ("jsonl", int, "odd", "long", "of a file"),
        ("parts", str, "odd", "wide", "of a file"),
        ("parts", str, "odd", "long", "of the baseline"),
        ("tsv", str, "odd", "in order", "of the baseline"),
        ("parts", str, "odd", "in order", "of a file"),
    ],
)
def test_a_join_finds_what_pulling_finds(  # noqa: PLR0913 - parameters
    tmp_path: Path, spill: Path, *, form: str, users: str, kept: str, spell: Any, kind: str
) -> None:
    odd = kind == "odd"
    baseline, candidate, again = (
        write(tmp_path / f"{seed}.{kept}", rows_of(seed, odd=odd), form, spell, model_version="country") for seed in (1, 2, 3)
    )
    asked = asked_of(baseline)
    if users == "of a file":
        asked = asked_of(write(tmp_path / f"users.{kept}", [*rows_of(4, odd=odd), *rows_of(4, odd=odd)[:20]], "wide", spell))
    arms = arms_of(baseline, candidate, asked, again)

    pulled = measure(replace(arms, joined=None), noise_floor=NoiseFloor.RETRAIN)
    assert {"DE", "FR", "IT", "UK"} == (pulled.run.models or {})[Arm.CANDIDATE].users.keys()
    for batch_users in (10_000, 29):
        joined = measure(arms, batch_users, noise_floor=NoiseFloor.RETRAIN)
        assert found(joined) == found(pulled)
        assert (joined.coverage, joined.left_out, joined.notes) == (pulled.coverage, pulled.left_out, pulled.notes)
    assert list(spill.iterdir()) == []


@pytest.mark.parametrize(("form", "kept"), [("wide", "parquet"), ("long", "csv"), ("wide", "jsonl")])
def test_a_join_spells_ids_as_pulling_does_and_users_who_become_one_have_no_list(tmp_path: Path, form: str, kept: str) -> None:
    rows = rows_of(1, odd=False)
    odd = [row | {"user": f" {row['user']}".upper(), "items": [f"sku-00{item}" for item in row["items"]]} for row in rows]
    odd.append({"user": "user-003", "items": ["sku-1"], "country": None, "tier": None})
    plain, candidate = (write(tmp_path / f"{seed}.{kept}", rows_of(seed, odd=False), form, str) for seed in (1, 2))
    forms = {"user_ids": ("strip", "lower"), "item_ids": ({"regex": "sku-(.*)"}, "int")}
    spelled = write(tmp_path / f"odd.{kept}", odd, form, str).model_copy(update=forms)
    for asked in (asked_of(candidate), FileUsersOptions(path=spelled.path, user="user", user_ids=("strip", "lower"))):
        arms = arms_of(spelled, candidate, asked)

        joined, pulled = measure(arms, 29), measure(replace(arms, joined=None))

        assert found(joined) == found(pulled)
        assert joined.coverage.all.reasons == pulled.coverage.all.reasons == {(Arm.BASELINE, CoverageReason.DUPLICATE_USER): 1}
        scores = found(measure(arms_of(plain, candidate, asked_of(candidate))))["scores"]
        assert found(joined)["scores"] == {user: each for user, each in scores.items() if user != "user-003"}


Files = tuple[FileSourceOptions, FileSourceOptions]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Baseline and candidate, clean and wide."""
    baseline, candidate = (write(tmp_path / f"{seed}.parquet", rows_of(seed, odd=False), "wide", str) for seed in (1, 2))
    return baseline, candidate


def asked_of(options: FileSourceOptions) -> FileUsersOptions:
    return FileUsersOptions(path=options.path, user="user", max_unreadable=1)


def holding(**columns: Any) -> Callable[[Path], object]:
    return lambda path: pq.write_table(pa.table(columns), path)


DAMAGED: list[tuple[Callable[[Path], object], str]] = [
    (Path.unlink, ", and that the job which writes it has run"),
    (lambda path: path.write_bytes(path.read_bytes()[:-9]), "has no end, it is cut off or still being written"),
    (holding(user=["a"], lists=[[1]]), "has no column 'items': it has user, lists"),
    (holding(user=["a"], items=[1.5]), "holds double, expected lists"),
    (holding(user=[True], items=[[1]]), "booleans: ids must be integers or text"),
    (lambda path: path.write_bytes(b""), "is empty: check the path"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGED)
def test_a_candidate_that_cannot_be_read_is_unavailable_to_everybody(
    files: Files, spill: Path, damage: Callable[[Path], object], reason: str
) -> None:
    damage(Path(files[1].path))

    result = measure(arms_of(*files, asked_of(files[0])))

    assert result.coverage.all.reasons == {(Arm.CANDIDATE, CoverageReason.UNAVAILABLE): SIZE}
    note = result.notes[Arm.CANDIDATE, CoverageReason.UNAVAILABLE]
    assert files[1].path in note
    assert reason in note
    assert list(spill.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (Path.unlink, "does not exist"),
        (holding(user=["", None], country=["DE", "DE"], tier=[1, 1]), "holds no user"),
        (holding(user=["a"]), "has no column 'country'"),
        (holding(user=["a"], country=[[1]], tier=[1]), "segment column 'country'"),
    ],
)
def test_without_users_nothing_is_measured(files: Files, spill: Path, damage: Callable[[Path], object], reason: str) -> None:
    users = write(Path(files[0].path).with_name("users.parquet"), rows_of(4, odd=False), "wide", str)
    damage(Path(users.path))

    with pytest.raises(SourceError, match=reason):
        measure(arms_of(*files, asked_of(users)))
    assert list(spill.iterdir()) == []


def test_second_lists_that_cannot_be_read_are_said_and_the_run_goes_on(files: Files) -> None:
    again = files[0].model_copy(update={"path": files[0].path.replace("1.parquet", "gone.parquet")})
    arms = arms_of(*files, asked_of(files[0]), again)

    pulled = measure(replace(arms, joined=None), noise_floor=NoiseFloor.RETRAIN)
    joined = measure(arms, noise_floor=NoiseFloor.RETRAIN)

    assert (joined.left_out, joined.notes) == (pulled.left_out, {})
    assert joined.left_out[0].startswith("noise_floor: ")


def test_damage_in_the_middle_of_a_file_ends_the_run_with_its_reason(files: Files, spill: Path) -> None:
    path = Path(files[1].path)
    content = bytearray(path.read_bytes())
    start = len(content) // 3
    content[start : start + 400] = b"\0" * 400
    path.write_bytes(content)

    with pytest.raises(SourceError, match="cannot be decoded") as caught:
        measure(arms_of(*files, asked_of(files[0])))
    assert "\n" not in str(caught.value)
    assert list(spill.iterdir()) == []


def _read_and_replace(answers: JoinedAnswers, path: Path) -> None:
    assert sum(len(batch.panel) for batch in answers.batches(50)) == SIZE
    copy = path.with_name("new")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def test_a_file_that_is_written_anew_while_it_is_read_ends_the_run(files: Files, spill: Path) -> None:
    source = joined_files(*files)
    path = Path(files[1].path)

    with pytest.raises(SourceError, match=r"2\.parquet was written anew while it was read"), source.read(REQUEST) as answers:
        _read_and_replace(answers, path)
    assert list(spill.iterdir()) == []


def test_the_deadline_interrupts_a_join(files: Files, spill: Path) -> None:
    def late(answers: Any) -> None:
        time.sleep(2.2)  # an interrupt meets nothing to interrupt
        # Nothing else is asked of the database: only another interrupt ends this.
        answers._database.execute("SELECT count(*) FROM range(1000000000000) t(a) WHERE hash(a) = 1")

    source = joined_files(*files)

    with (
        pytest.raises(SourceError, match="were not read when the run's deadline passed: raise deadline"),
        source.read(replace(REQUEST, timeout_s=2)) as answers,
    ):
        late(answers)
    assert list(spill.iterdir()) == []


@pytest.mark.parametrize("hung", ["held_files", "ListView"])
def test_a_disk_that_hangs_is_given_up_at_the_deadline(files: Files, hung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(joined, hung, lambda *_: release.wait(60))
    source = joined_files(*files)
    with pytest.raises(SourceError, match="were not read when the run's deadline passed: raise deadline"):
        source.read(replace(REQUEST, timeout_s=0.5)).__enter__()
    release.set()


def test_what_does_not_fit_into_memory_is_spilled_and_removed_and_a_full_disk_is_said(
    tmp_path: Path, spill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [f"user-{number:06}-{'x' * 40}" for number in range(150_000)]
    rng = np.random.default_rng(1)
    files = []
    for name in ("baseline", "candidate"):
        lists = pa.array(list(rng.integers(0, 10**6, (len(users), 20))))
        pq.write_table(pa.table({"user": rng.permutation(users), "items": lists}), tmp_path / f"{name}.parquet")
        files.append(FileSourceOptions(path=str(tmp_path / f"{name}.parquet"), user="user", items="items"))
    monkeypatch.setattr(database, "MEMORY_MB", 60)
    source = joined_files(files[0], files[1])
    seen = 0

    request = replace(REQUEST, k=20, timeout_s=300)
    with source.read(request) as answers:
        for batch in answers.batches(5000):
            assert len(batch.candidate.rankings) == len(batch.panel)
            seen += len(batch.panel)
        assert [path.name for path in spill.iterdir()]
    assert (seen, list(spill.iterdir())) == (len(users), [])
    with small_disk(tmp_path / "small", "2m") as disk:
        for folder, most in ((disk, scratch.SPILL), (spill, "2MB")):
            monkeypatch.setattr(tempfile, "tempdir", str(folder))
            monkeypatch.setattr(scratch, "SPILL", most)
            with (
                pytest.raises(
                    SourceError, match=r"the disk of the temporary folder .* is full|more than 2MB of temporary files"
                ),
                source.read(request) as answers,
            ):
                list(answers.batches(5000))
            assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("form", "names"), [("wide", ("user", "key")), ("long", ("key", "KEY_1")), ("wide", ("segment_0", "Here"))]
)
def test_columns_may_have_any_name(tmp_path: Path, form: str, names: tuple[str, str]) -> None:
    files = [write(tmp_path / f"{seed}.parquet", rows_of(seed, odd=True), form, str) for seed in (1, 2)]
    given = {"user": names[0], "items" if form == "wide" else "item": names[1]}
    renamed = []
    for file in files:
        table = pq.read_table(file.path)
        write_parquet(table.rename_columns([given.get(name, name) for name in table.column_names]), tmp_path / "named")
        (tmp_path / "named").rename(path := f"{file.path}.named.parquet")
        renamed.append(file.model_copy(update={"path": path} | {role: given.get(role) for role in ("user", "items", "item")}))
    users = [FileUsersOptions(path=each.path, user=each.user, max_unreadable=1) for each in (files[0], renamed[0])]
    runs = [arms_of(one, other, asked) for (one, other), asked in ((files, users[0]), (renamed, users[1]))]
    assert found(measure(runs[1])) == found(measure(runs[0]))
    some = request("user-001", "user-003", k=4)
    assert as_lists(runs[1].candidate.pull(some)) == as_lists(runs[0].candidate.pull(some)) != {}


def test_the_database_reads_its_files_and_nothing_else(files: Files, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    other.write_bytes(Path(files[0].path).read_bytes())
    source = joined_files(*files)

    with source.read(REQUEST) as answers:
        for forbidden in (
            f"SELECT * FROM '{other}'",  # noqa: S608 - a path of ours
            f"COPY (SELECT 1) TO '{tmp_path / 'written.csv'}'",
            f"ATTACH '{tmp_path / 'made.db'}'",
            "INSTALL httpfs",
            "SET memory_limit = '100GB'",
            "SELECT * FROM read_csv('/etc/passwd')",
        ):
            with pytest.raises(duckdb.Error):
                answers._database.execute(forbidden)
    assert not (tmp_path / "written.csv").exists()
