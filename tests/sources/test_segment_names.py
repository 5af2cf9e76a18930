"""The same data gives the same segment names, whatever holds it: pulled and joined, from CSV, JSON lines, Parquet and SQL."""

from dataclasses import replace

import pytest

from factories import SLOT, comparison
from monitor.sampling import draw
from monitor.sources import SourceOptions, UsersOptions, open_users
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.joined import JoinedFiles
from sources.file.test_joined import REQUEST
from sources.tables import WRITERS
from tables import parsed

DIMENSIONS = ("age", "vip", "size")
NAMES = {"all", "age=18", "age=30", "vip=true", "vip=false", "size=1.5", "size=2"}
ROWS = parsed("""
    {"user": 0, "age": 18.0, "vip": true, "size": 1.5}
    {"user": 1, "age": 30.0, "vip": false, "size": 2.0}
    {"user": 2, "age": 18.0, "vip": true, "size": 2.0}
""")


@pytest.mark.parametrize(
    ("form", "texts"),
    [("csv", ()), ("jsonl", ()), ("parquet", DIMENSIONS), ("sqlite", ("vip",))],
)
def test_users_are_in_segments_of_the_same_names(form, texts, tmp_path):
    rows = [row | {name: str(row[name]) for name in texts} for row in ROWS]
    options = WRITERS[form](rows, tmp_path, user="user")
    baseline = SourceOptions.model_validate({"http": {"url": "http://host/{user}"}})

    table = open_users(UsersOptions.model_validate(options), baseline).users(SLOT, DIMENSIONS)

    assert set(draw(table, comparison(sample=None, max_segment_values=10), SLOT).segments) == NAMES
    if "sql" in options:
        return
    (tmp_path / "lists.jsonl").write_text('{"user": 0, "items": [1]}\n')
    lists = FileSourceOptions(path=str(tmp_path / "lists.jsonl"), user="user", items="items")
    users = FileUsersOptions.model_validate(options["file"])
    files = JoinedFiles({"baseline": lists, "candidate": lists}, users, DIMENSIONS)
    with files.read(replace(REQUEST, max_segment_values=10)) as answers:
        assert set(answers.asked.segments) == NAMES
        assert {name for batch in answers.batches(10) for name in batch.panel.segments} == NAMES
