"""Titles of items from files and databases: of those asked for, as text, or one line that says what is wrong."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import SourceError
from monitor.sources import ItemTitlesOptions, open_item_titles
from monitor.sources.lookup_tables import MAX_TITLE_LENGTH
from servers.lists import SLOT
from sources.tables import Write, writers

COLUMNS = {"item": "id", "title": "name"}


def read(options: dict[str, Any], *items: str) -> dict[str, str]:
    return dict(open_item_titles(ItemTitlesOptions.model_validate(options)).titles(SLOT, frozenset(items)))


parquet, csv, jsonl, sqlite = writers(("id", "name"), **COLUMNS)
every_kind = pytest.mark.parametrize("write", [parquet, csv, jsonl, sqlite], ids=["parquet", "csv", "jsonl", "sqlite"])


@every_kind
def test_only_items_asked_for_have_their_title_and_the_first_counts(write: Write, tmp_path: Path) -> None:
    rows = [(7, "Tea"), (42, "Kettle"), (7, "Coffee"), (9, None), (None, "Nothing")]
    assert read(write(rows, tmp_path), "7", "9", "1") == {"7": "Tea"}
    assert read(write(rows, tmp_path), "8") == {}


def test_a_title_is_bounded(tmp_path: Path) -> None:
    assert read(csv([(7, "x" * 1000)], tmp_path), "7") == {"7": "x" * MAX_TITLE_LENGTH}


def test_a_title_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "titles.parquet"
    pq.write_table(pa.table({"id": [7], "name": [["a", "b"]]}), path)
    with pytest.raises(SourceError, match=r"the title column of .*titles.parquet holds list: titles must be text"):
        read({"file": COLUMNS | {"path": str(path)}}, "7")
