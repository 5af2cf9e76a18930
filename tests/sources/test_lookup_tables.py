"""Weights and titles of items from files and databases, and the errors in them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.model.errors import SourceError
from monitor.sources import (
    ItemTitlesOptions,
    ItemWeightsOptions,
    RelevanceOptions,
    open_item_titles,
    open_item_weights,
    open_relevance,
)
from monitor.sources.lookup_tables import MAX_TITLE_LENGTH
from servers.lists import SLOT
from sources.tables import case, writers

WRITERS = writers(("id", "sold"), item="id", weight="sold")


def read(options):
    return open_item_weights(ItemWeightsOptions.model_validate(options)).weights(SLOT)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_each_item_has_its_weight_and_whole_numbers_stay_numbers(write, tmp_path):
    found = read(write([(7, 0.5), (42, 3.0), (1, 1e9)], tmp_path))

    assert found.weights.dtype == np.float64
    assert list(map(str, found.items)) == ["7", "42", "1"]
    assert found.weights.tolist() == [0.5, 3.0, 1e9]
    assert (found.items.dtype == np.int64) is (write is not WRITERS["csv"])


NO_WEIGHT = r"^item '13' of .*table.* has no weight from 1e-50 to 1e\+50: give it such a weight"
TWICE = "^item '7' of .* has more than one weight: give each item once$"
ODD_WEIGHTS = json.loads("""{
    "parquet": [0, null, NaN, 1e200, 1e-200],
    "csv": [0, -Infinity],
    "jsonl": [-0.5, "much", true, [1]],
    "sqlite": [-0.5, null]
}""")
REFUSED = [
    case(kept, kept, (13, odd), NO_WEIGHT) for kept, odds in ODD_WEIGHTS.items() for odd in odds
]
REFUSED += [case(kept, kept, (7, 1), TWICE) for kept in WRITERS]
REFUSED += [case(kept, kept, (None, 1), "^row 3 of .* has no item id") for kept in WRITERS]
REFUSED += [case("jsonl", "jsonl", ("7", 1), TWICE)]
REFUSED += [case("jsonl", "jsonl", ("a\nb" + "x" * 500, -1), r"^item 'abxxx[^\n]{,280}$")]


@pytest.mark.parametrize("kept, row, reason", REFUSED)
def test_an_odd_row_is_reported_with_its_item_and_place(kept, row, reason, tmp_path):
    with pytest.raises(SourceError, match=reason):
        read(WRITERS[kept]([(7, 0.5), (12, 1.0), row], tmp_path))


def test_not_one_item_is_an_error_that_may_pass(tmp_path):
    with pytest.raises(SourceError, match="has no item") as caught:
        read(WRITERS["sqlite"]([], tmp_path))
    assert not caught.value.permanent


def test_a_column_that_cannot_hold_weights_is_refused(tmp_path):
    with pytest.raises(SourceError, match=r"column .* holds booleans: it must hold numbers"):
        read(WRITERS["parquet"]([(7, True)], tmp_path))


def test_more_than_the_limit_is_refused(tmp_path):
    path = str(tmp_path / "many.parquet")
    pq.write_table(pa.table({"id": np.arange(10**5), "sold": np.ones(10**5)}), path)
    given = {"path": path, "max_bytes": 2**20, "item": "id"}
    relevance = RelevanceOptions.model_validate({"file": given | {"user": "id", "grade": "sold"}})
    with pytest.raises(SourceError, match="more than 1048576 bytes"):
        read({"file": given | {"weight": "sold"}})
    with pytest.raises(SourceError, match="more than 1048576 bytes"):
        open_relevance(relevance).relevance(SLOT)


TITLED_ITEMS = writers(("id", "name"), item="id", title="name")


def titles(options, *items):
    return dict(
        open_item_titles(ItemTitlesOptions.model_validate(options)).titles(SLOT, frozenset(items))
    )


@pytest.mark.parametrize("write", TITLED_ITEMS.values(), ids=TITLED_ITEMS)
def test_requested_items_have_their_first_title_and_a_long_title_is_cut(write, tmp_path):
    rows = [(7, "Tea"), (42, "Mug"), (7, "Coffee"), (9, None), (None, "No"), (8, "x" * 1000)]
    found = titles(write(rows, tmp_path), "7", "8", "9", "1")
    assert found == {"7": "Tea", "8": "x" * MAX_TITLE_LENGTH}


def test_a_title_that_is_no_text_is_refused(tmp_path):
    with pytest.raises(
        SourceError,
        match=r"the title column of .*table.parquet has a value of type list: write titles as text",
    ):
        titles(TITLED_ITEMS["parquet"]([(7, ["a", "b"])], tmp_path), "7")
