"""The same data gives the same segment names, whatever holds it: pulled and joined, from CSV, JSON lines, Parquet and SQL."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from factories import SLOT, comparison
from monitor.model.runs import JoinRequest
from monitor.sampling import draw
from monitor.sources import SourceOptions, UsersOptions, open_users
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.joined import JoinedFiles

DIMENSIONS = ("age", "vip", "size")
NAMES = {"all", "age=18", "age=30", "vip=true", "vip=false", "size=1.5", "size=2"}
AGES, VIPS, SIZES = [18.0, 30.0, 18.0], [True, False, True], [1.5, 2.0, 2.0]


def csv(folder: Path) -> dict[str, Any]:
    rows = "".join(
        f"{n},{age},{vip},{size}\n"
        for n, (age, vip, size) in enumerate(zip(AGES, VIPS, SIZES, strict=True))
    )
    (folder / "users.csv").write_text(f"user,age,vip,size\n{rows}")
    return {"file": {"path": str(folder / "users.csv"), "user": "user"}}


def jsonl(folder: Path) -> dict[str, Any]:
    rows = zip(AGES, VIPS, SIZES, strict=True)
    lines = (
        json.dumps({"user": n, "age": age, "vip": vip, "size": size})
        for n, (age, vip, size) in enumerate(rows)
    )
    (folder / "users.jsonl").write_text("\n".join(lines))
    return {"file": {"path": str(folder / "users.jsonl"), "user": "user"}}


def parquet(folder: Path, *, as_text: bool = False) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {"age": AGES, "vip": VIPS, "size": SIZES}
    values = {
        name: [str(each) for each in column] if as_text else column
        for name, column in columns.items()
    }
    pq.write_table(pa.table({"user": [0, 1, 2], **values}), folder / "users.parquet")
    return {"file": {"path": str(folder / "users.parquet"), "user": "user"}}


def text_parquet(folder: Path) -> dict[str, Any]:
    return parquet(folder, as_text=True)


def sqlite(folder: Path) -> dict[str, Any]:
    url = f"sqlite:///{folder / 'users.db'}"
    engine = sa.create_engine(url)
    rows = [
        (n, age, str(vip), size)
        for n, (age, vip, size) in enumerate(zip(AGES, VIPS, SIZES, strict=True))
    ]
    with engine.begin() as connection:
        connection.execute(
            sa.text('CREATE TABLE users ("user" integer, age real, vip text, size real)')
        )
        for row in rows:
            connection.execute(
                sa.text("INSERT INTO users VALUES (:a, :b, :c, :d)"),
                dict(zip("abcd", row, strict=True)),
            )
    engine.dispose()
    return {"sql": {"url": url, "query": "SELECT * FROM users", "user": "user"}}


@pytest.mark.parametrize("write", [csv, jsonl, parquet, text_parquet, sqlite])
def test_pulled_users_are_in_segments_of_the_same_names(write, tmp_path):
    baseline = SourceOptions.model_validate({"http": {"url": "http://host/{user}"}})
    table = open_users(UsersOptions.model_validate(write(tmp_path)), baseline).users(
        SLOT, DIMENSIONS
    )

    assert set(draw(table, comparison(sample=None, max_segment_values=10), SLOT).segments) == NAMES


@pytest.mark.parametrize("write", [csv, jsonl, parquet, text_parquet])
def test_joined_users_are_in_segments_of_the_same_names(write, tmp_path):
    users = FileUsersOptions.model_validate(write(tmp_path)["file"])
    (tmp_path / "lists.jsonl").write_text('{"user": 0, "items": [1]}\n')
    lists = FileSourceOptions(path=str(tmp_path / "lists.jsonl"), user="user", items="items")
    request = JoinRequest(k=1, slot=SLOT, timeout_s=60, max_segment_values=10)

    with JoinedFiles({"baseline": lists, "candidate": lists}, users, DIMENSIONS).read(
        request
    ) as answers:
        assert set(answers.asked.segments) == NAMES
        assert {name for batch in answers.batches(10) for name in batch.panel.segments} == NAMES
