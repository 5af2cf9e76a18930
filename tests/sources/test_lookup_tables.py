"""Weights and titles of items from files and databases: those that are of use, or one line that says what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import SourceError
from monitor.model.rankings import ItemWeights
from monitor.sources import ItemTitlesOptions, ItemWeightsOptions, open_item_titles, open_item_weights
from monitor.sources.lookup_tables import MAX_TITLE_LENGTH
from servers.lists import SLOT
from sources.tables import FORMATS, Write, writers

FILE = {"item": "id", "weight": "sold"}


def read(**options: Any) -> ItemWeights:
    return open_item_weights(ItemWeightsOptions.model_validate(options)).weights(SLOT)


def by_item(found: ItemWeights) -> dict[str, float]:
    assert found.weights.dtype == np.float64
    return dict(zip(map(str, found.items), found.weights.tolist(), strict=True))


parquet, csv, jsonl, sqlite = writers(("id", "sold"), **FILE)
every_kind = pytest.mark.parametrize("write", [parquet, csv, jsonl, sqlite], ids=FORMATS)


@every_kind
def test_each_item_has_its_weight(write: Write, tmp_path: Path) -> None:
    assert by_item(read(**write([(7, 0.5), (42, 3), (1, 1e9)], tmp_path))) == {"7": 0.5, "42": 3.0, "1": 1e9}


@pytest.mark.parametrize("write", [parquet, jsonl])
def test_whole_numbers_stay_numbers(write: Write, tmp_path: Path) -> None:
    assert read(**write([(7, 0.5), (42, 3.0)], tmp_path)).items.dtype == np.int64


WEIGHTS: tuple[tuple[tuple[object, ...], tuple[Write, ...]], ...] = (
    ((0, -0.5, None), (parquet, csv, jsonl, sqlite)),
    ((float("nan"), float("inf"), float("-inf"), 1e200, 1e-200), (parquet, csv)),
    (("much", True, [1]), (jsonl,)),
)


@pytest.mark.parametrize(("weight", "write"), [(each, write) for odd, writes in WEIGHTS for each in odd for write in writes])
def test_a_weight_that_is_no_finite_number_above_zero_is_told_with_its_item_and_place(
    write: Write, weight: object, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match=r"^item '13' of .*table.* has no weight from 1e-50 to 1e\+50: give it one"):
        read(**write([(7, 0.5), (12, 1.0), (13, weight)], tmp_path))


@every_kind
def test_an_item_that_stands_twice_and_a_row_without_one_are_told(write: Write, tmp_path: Path) -> None:
    for item, told in (
        (7, "^item '7' of .* has more than one weight: give each item once$"),
        (None, "^row 4 of .* has no item id"),
    ):
        with pytest.raises(SourceError, match=told):
            read(**write([(7, 0.5), (8, 1), (9, 1), (item, 0.5)], tmp_path))


def test_a_number_and_its_text_are_one_item(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^item '42' of .* more than one weight"):
        read(**jsonl([(42, 0.5), ("42", 1), ("x", 2)], tmp_path))


@every_kind
def test_not_one_item_is_an_error_that_may_pass(write: Write, tmp_path: Path) -> None:
    options = write([], tmp_path)
    if write is parquet:
        empty = pa.table({"id": pa.array([], pa.int64()), "sold": pa.array([], pa.float64())})
        pq.write_table(empty, tmp_path / "table.parquet")

    with pytest.raises(SourceError, match="holds no item") as caught:
        read(**options)
    assert not caught.value.permanent


def test_a_column_that_cannot_hold_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"column .* holds booleans: it must hold numbers"):
        read(**parquet([(7, True)], tmp_path))


def test_an_items_name_is_told_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        read(**jsonl([("a\nb" + "x" * 500, -1)], tmp_path))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("item 'abxxx")
    assert len(str(caught.value)) < 300


def test_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    options = parquet([], tmp_path)["file"]
    pq.write_table(pa.table({"id": np.arange(100_000), "sold": np.ones(100_000)}), options["path"])
    with pytest.raises(SourceError, match="more than 1048576 bytes"):
        read(file=options | {"max_bytes": 2**20})
    url = sqlite([(number, 1.0) for number in range(5)], tmp_path)["sql"]
    with pytest.raises(SourceError, match="gives more than 3 rows: select fewer, or raise max_rows"):
        read(sql=url | {"max_rows": 3})


TITLED = {"item": "id", "title": "name"}
NAMED = dict(zip(FORMATS, writers(("id", "name"), **TITLED), strict=True))


def titles(options: dict[str, Any], *items: str) -> dict[str, str]:
    return dict(open_item_titles(ItemTitlesOptions.model_validate(options)).titles(SLOT, frozenset(items)))


@pytest.mark.parametrize("kind", NAMED)
def test_only_items_asked_for_have_their_title_and_the_first_counts(kind: str, tmp_path: Path) -> None:
    rows = [(7, "Tea"), (42, "Kettle"), (7, "Coffee"), (9, None), (None, "Nothing")]
    assert titles(NAMED[kind](rows, tmp_path), "7", "9", "1") == {"7": "Tea"}


def test_nobody_s_title_is_none_and_a_long_one_is_cut(tmp_path: Path) -> None:
    options = NAMED["csv"]([(7, "x" * 1000)], tmp_path)
    assert (titles(options, "8"), titles(options, "7")) == ({}, {"7": "x" * MAX_TITLE_LENGTH})


def test_a_title_that_is_no_text_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [7], "name": [["a", "b"]]}), tmp_path / "titles.parquet")
    with pytest.raises(SourceError, match=r"the title column of .*titles.parquet holds list: titles must be text"):
        titles({"file": TITLED | {"path": str(tmp_path / "titles.parquet")}}, "7")
