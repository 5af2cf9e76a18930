"""The models' own scores beside their lists: from every kind of source, through every odd part."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from monitor.errors import SourceError
from monitor.model.rankings import CoverageReason, Pull
from servers.lists import as_lists, request, source_of
from servers.recommender import Recommender
from sources.tables import FORMATS, Write, jsonl, parquet, writers

Scored = dict[str, tuple[list[Any], list[float | None]]]

WIDE = {"user": "who", "items": "what", "scores": "how"}
LONG = {"user": "who", "item": "what", "scores": "how"}
RANKED = LONG | {"rank": "place"}
LENIENT: Any = {"max_unreadable": 1}


def scores_of(pull: Pull) -> dict[str, list[float | None]]:
    """The scores of each list, None where there is none."""
    table = pull.rankings
    assert table.scores is not None
    assert table.scores.dtype == np.float64
    assert len(table.scores) == len(table.items)
    values = [None if np.isnan(score) else float(score) for score in table.scores]
    return {user: values[a:b] for user, a, b in zip(table.users, table.offsets, table.offsets[1:], strict=False)}


def rows_of(lists: Scored) -> list[tuple[Any, ...]]:
    """One item a row, worst first, with its rank."""
    return [
        (user, item, score, place)
        for user, (items, scores) in lists.items()
        for place, (item, score) in reversed(list(enumerate(zip(items, scores or [], strict=False))))
    ]


def wide(write: Write) -> Callable[[Scored, Path], Any]:
    return lambda lists, folder: source_of(**write([(user, *each) for user, each in lists.items()], folder))


def long(write: Write) -> Callable[[Scored, Path], Any]:
    return lambda lists, folder: source_of(**write(rows_of(lists), folder))


def by_user(rows: Any, folder: Path) -> dict[str, Any]:
    (options,) = sqlite_of_items(rows, folder).values()
    del options["table"]
    return {"sql": {**options, "query": "SELECT * FROM filled WHERE who IN :users", "batch": 1}}


*of_items, sqlite_of_items = writers(("who", "what", "how", "place"), **RANKED)
KINDS = {f"{name} wide": wide(write) for name, write in zip(FORMATS, writers(("who", "what", "how"), **WIDE), strict=True)}
KINDS |= {f"{name} long": long(write) for name, write in zip(FORMATS, (*of_items, by_user), strict=True)}
every_kind = pytest.mark.parametrize("kind", KINDS)

SCORED: Scored = {"a": ([5, 3, 9], [0.75, 0.5, None]), "b": ([7], [-2.0]), "c": ([1, 2], [3.25, 3.25])}


@every_kind
def test_scores_stand_beside_their_items_whatever_users_are_left_out(kind: str, tmp_path: Path) -> None:
    source = KINDS[kind](SCORED, tmp_path)
    pull, some = source.pull(request("c", "a", "b")), source.pull(request("c", "nobody", k=1))

    assert as_lists(pull) == {"a": ["5", "3", "9"], "b": ["7"], "c": ["1", "2"]}
    assert scores_of(pull) == {"a": [0.75, 0.5, None], "b": [-2.0], "c": [3.25, 3.25]}
    assert not pull.failures
    assert [(user, scores[0]) for user, scores in scores_of(some).items()] == [("c", 3.25)]


def test_arrays_of_numbers_of_postgresql_are_scores(postgres_url: str) -> None:
    engine = sa.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE arrays (who text, what bigint[], how numeric[])")
        connection.exec_driver_sql("INSERT INTO arrays VALUES ('u', ARRAY[3, 1], ARRAY[0.5, NULL]), ('v', ARRAY[1], '{}')")
    engine.dispose()

    pull = source_of(sql=WIDE | {"url": postgres_url, "table": "arrays"}).pull(request("u", "v"))

    assert scores_of(pull) == {"u": [0.5, None]}
    assert pull.failures == {"v": CoverageReason.MALFORMED}


@pytest.mark.parametrize("kind", ["parquet wide", "jsonl wide", "csv wide", "sqlite wide"])
@pytest.mark.parametrize("odd", [[0.5], [0.5, 0.4, 0.3], [], None], ids=["fewer", "more", "none", "null"])
def test_scores_that_are_not_as_many_as_items_make_one_list_malformed(kind: str, odd: Any, tmp_path: Path) -> None:
    pull = KINDS[kind]({"good": ([1, 2], [2.0, 1.0]), "odd": ([3, 4], odd), "fine": ([5], [7.0])}, tmp_path).pull(
        request("odd", "fine", "good")
    )

    assert scores_of(pull) == {"good": [2.0, 1.0], "fine": [7.0]}
    assert as_lists(pull) == {"good": ["1", "2"], "fine": ["5"]}
    assert pull.failures == {"odd": CoverageReason.MALFORMED}
    assert "scores" in pull.notes[CoverageReason.MALFORMED]


@pytest.mark.parametrize("odd", ["x", True, [1], {}, 10**400], ids=lambda odd: str(odd)[:4])
def test_scores_that_are_no_numbers_make_one_list_malformed(odd: Any, tmp_path: Path) -> None:
    pull = KINDS["jsonl wide"]({"good": ([1], [2.0]), "odd": ([3, 4], [1.0, odd])}, tmp_path).pull(request("odd", "good"))

    assert scores_of(pull) == {"good": [2.0]}
    assert pull.failures == {"odd": CoverageReason.MALFORMED}


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_text_that_is_no_number_makes_its_list_malformed_in_long_form_too(suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"who": ["a", "a", "b", "b"], "what": [1, 2, 3, 4], "how": ["0.5", "", "1e2", "oops"], "place": [1, 2, 1, 2]}
    )
    path = tmp_path / f"lists.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_json(path, orient="records", lines=True)

    pull = source_of(file=RANKED | LENIENT | {"path": str(path)}).pull(request("a", "b"))

    assert scores_of(pull) == {"a": [0.5, None]}
    assert pull.failures == {"b": CoverageReason.MALFORMED}


@pytest.mark.parametrize(
    "scores",
    [pa.array([["1"]]), pa.array([[True]]), pa.array([1.0]), pa.array(["[1]"])],
    ids=["texts", "booleans", "a number", "a text"],
)
def test_a_column_that_cannot_hold_lists_of_scores_is_refused(scores: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"who": ["a"], "what": [[1]], "how": scores}), tmp_path / "lists.parquet")

    with pytest.raises(SourceError, match=r"column 'how' of .*lists\.parquet holds .*: it must hold lists of numbers"):
        source_of(file=WIDE | {"path": str(tmp_path / "lists.parquet")}).pull(request("a"))


def test_a_long_column_that_cannot_hold_scores_is_refused(tmp_path: Path) -> None:
    options = parquet([{"who": "a", "what": 1, "how": True, "place": 1}], tmp_path, **RANKED)

    with pytest.raises(SourceError, match=r"column 'how' of .* holds booleans: it must hold numbers"):
        source_of(**options).pull(request("a"))


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 3)], ids=str
)
@pytest.mark.parametrize("form", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2)], ids=["list", "large", "fixed"])
def test_scores_of_every_kind_of_number_are_read(kind: pa.DataType, form: Any, tmp_path: Path) -> None:
    makes = {pa.float16(): np.float16, pa.float32(): float, pa.float64(): float, pa.decimal128(9, 3): Decimal}
    flat = pa.array([makes.get(kind, int)(number) for number in (2, 1, 4, 3)], kind)
    scores = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), flat).cast(form(kind))
    pq.write_table(pa.table({"who": ["a", "b"], "what": [[1, 2], [3, 4]], "how": scores}), tmp_path / "lists.parquet")

    pull = source_of(file=WIDE | {"path": str(tmp_path / "lists.parquet")}).pull(request("b", "a"))

    assert scores_of(pull) == {"a": [2.0, 1.0], "b": [4.0, 3.0]}


def test_without_ranks_the_best_score_is_first_and_ties_stand_in_the_order_of_their_ids(tmp_path: Path) -> None:
    rows = [("a", 9, 0.5), ("a", 10, 0.5), ("b", 1, -1.0), ("a", 3, 0.75), ("a", 100, 0.5), ("b", 2, 0.0)]
    lists = [dict(zip(("who", "what", "how"), row, strict=True)) for row in rows]

    pull = source_of(**parquet(lists, tmp_path, **LONG)).pull(request("a", "b"))

    assert as_lists(pull) == {"a": ["3", "10", "100", "9"], "b": ["2", "1"]}
    assert scores_of(pull) == {"a": [0.75, 0.5, 0.5, 0.5], "b": [0.0, -1.0]}


def test_without_ranks_a_missing_score_leaves_no_order(tmp_path: Path) -> None:
    rows = [("a", 1, None), ("a", 2, 0.5), ("b", 3, 0.25), ("c", 4, float("nan")), ("d", None, 0.5)]
    lists = [dict(zip(("who", "what", "how"), row, strict=True)) for row in rows]

    pull = source_of(**parquet(lists, tmp_path, **LONG, **LENIENT)).pull(request("a", "b", "c", "d"))

    assert as_lists(pull) == {"b": ["3"]}
    assert pull.failures == dict.fromkeys(["a", "c", "d"], CoverageReason.MALFORMED)


def test_fractions_are_ranks_in_json_lines(tmp_path: Path) -> None:
    rows = [{"who": "a", "what": 1, "place": 2.5, "how": 1}, {"who": "a", "what": 2, "place": 1.5, "how": 2}]

    assert as_lists(source_of(**jsonl(rows, tmp_path, **RANKED)).pull(request("a"))) == {"a": ["2", "1"]}


def test_scores_are_selected_by_jmespath(recommender: Recommender) -> None:
    recommender.lists["u"] = {"items": [{"id": 3, "score": 0.5}, {"id": "x", "score": 1}, {"id": 1, "score": None}]}
    recommender.lists["v"] = {"items": [{"id": 3, "score": 0.5}, {"id": 4}]}
    recommender.lists |= {"w": {"items": [{"id": 3, "score": "0.5"}]}, "x": {"items": [1, 2]}, "y": {"items": [1], "scores": 1}}
    http = {"url": recommender.url, "items": "items[*].id || items", "scores": "items[*].score || scores"}

    pull = source_of(http=http).pull(request(*"vwxy"))
    assert pull.failures == dict.fromkeys("vwxy", CoverageReason.MALFORMED)
    assert ": expected a list of numbers as scores, as many as items" in pull.notes[CoverageReason.MALFORMED]

    http["scores"] = "map(&score, items)"
    pull = source_of(http=http).pull(request("u", "v", k=2))
    assert scores_of(pull) == {"u": [0.5, 1.0], "v": [0.5, None]}
