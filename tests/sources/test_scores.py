"""The models' own scores beside their lists: from every kind of source, through every odd part."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import SourceError
from monitor.model.rankings import CoverageReason, Pull
from monitor.ports import Source
from servers.lists import as_lists, pull_of, request, source_of
from sources.tables import parquet, writers
from tables import parsed

WIDE = {"user": "who", "items": "what", "scores": "how"}
LONG = {"user": "who", "item": "what", "scores": "how"}
RANKED = LONG | {"rank": "place"}
LENIENT: Any = {"max_unreadable": 1}
OF_LISTS = writers(("who", "what", "how"), **WIDE)


def scores_of(pull: Pull) -> dict[str, list[float | None]]:
    """The scores of each list, None where there is none."""
    table = pull.rankings
    assert table.scores is not None
    assert table.scores.dtype == np.float64
    assert len(table.scores) == len(table.items)
    values = [None if np.isnan(score) else float(score) for score in table.scores]
    return {
        user: values[a:b]
        for user, a, b in zip(table.users, table.offsets, table.offsets[1:], strict=False)
    }


def in_parquet(folder: Path, options: dict[str, str], **columns: Any) -> Source:
    pq.write_table(pa.table(columns), folder / "lists.parquet")
    return source_of(file=options | {"path": str(folder / "lists.parquet")})


@pytest.mark.parametrize("kept", ["parquet", "csv", "sqlite"])
def test_scores_stand_beside_their_items_whatever_users_are_left_out(kept, tmp_path):
    rows = [("a", [5, 3, 9], [0.75, 0.5, None]), ("b", [7], [-2.0]), ("c", [1, 2], [3.25, 3.25])]
    source = source_of(**OF_LISTS[kept](rows, tmp_path))

    pull, part = source.pull(request("c", "a", "b")), source.pull(request("c", "nobody", k=1))

    assert as_lists(pull) == {"a": ["5", "3", "9"], "b": ["7"], "c": ["1", "2"]}
    assert scores_of(pull) == {"a": [0.75, 0.5, None], "b": [-2.0], "c": [3.25, 3.25]}
    assert [(user, scores[0]) for user, scores in scores_of(part).items()] == [("c", 3.25)]


NOT_AS_MANY: list[Any] = [[0.5], [0.5, 0.4, 0.3], [], None]
NO_NUMBERS: list[Any] = [[1.0, "x"], [1.0, True], [1.0, [1]], [1.0, {}], [1.0, 10**400]]


@pytest.mark.parametrize(
    ("kept", "odd"), [*((kept, NOT_AS_MANY) for kept in OF_LISTS), ("jsonl", NO_NUMBERS)]
)
def test_scores_that_are_no_numbers_or_not_as_many_as_items_make_one_list_malformed(
    kept, odd, tmp_path
):
    bad = [f"odd {number}" for number in range(len(odd))]
    rows = [
        ("good", [1, 2], [2.0, 1.0]),
        *((user, [3, 4], scores) for user, scores in zip(bad, odd, strict=True)),
    ]

    pull = pull_of("good", *bad, **OF_LISTS[kept](rows, tmp_path))

    assert scores_of(pull) == {"good": [2.0, 1.0]}
    assert pull.failures == dict.fromkeys(bad, CoverageReason.MALFORMED)
    assert "scores" in pull.notes[CoverageReason.MALFORMED]


def test_in_long_form_scores_follow_ranks_and_text_that_is_no_number_makes_its_list_malformed(
    tmp_path,
):
    path = tmp_path / "lists.csv"
    path.write_text("who,what,how,place\na,2,,2\na,1,0.5,1\nb,3,1e2,1\nb,4,oops,2\n")

    pull = pull_of("a", "b", file=RANKED | LENIENT | {"path": str(path)})

    assert as_lists(pull) == {"a": ["1", "2"]}
    assert scores_of(pull) == {"a": [0.5, None]}
    assert pull.failures == {"b": CoverageReason.MALFORMED}


@pytest.mark.parametrize(
    ("options", "scores", "expected"),
    [
        *(
            (WIDE, odd, "lists of numbers")
            for odd in (pa.array([["1"]]), pa.array([[True]]), pa.array([1.0]), pa.array(["[1]"]))
        ),
        (LONG, pa.array([True]), "numbers"),
    ],
)
def test_a_column_that_cannot_hold_scores_is_refused(options, scores, expected, tmp_path):
    source = in_parquet(
        tmp_path, options, who=["a"], what=[[1]] if options is WIDE else [1], how=scores
    )

    with pytest.raises(
        SourceError, match=rf"column 'how' of .*lists\.parquet holds .*: it must hold {expected}"
    ):
        source.pull(request("a"))


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_list(pa.uint64()),
        pa.list_(pa.float16()),
        pa.list_(pa.float32(), 2),
        pa.list_(pa.decimal128(9, 3)),
    ],
    ids=str,
)
def test_scores_of_every_kind_of_number_are_read(kind, tmp_path):
    scores = pa.array([[2, 1], [4, 3]], kind)

    pull = in_parquet(tmp_path, WIDE, who=["a", "b"], what=[[1, 2], [3, 4]], how=scores).pull(
        request("b", "a")
    )

    assert scores_of(pull) == {"a": [2.0, 1.0], "b": [4.0, 3.0]}


def test_without_ranks_the_best_score_is_first_ties_stand_in_the_order_of_ids_and_a_missing_one_leaves_no_order(
    tmp_path,
):
    rows = """
        {"who": "a", "what": 9, "how": 0.5}
        {"who": "a", "what": 10, "how": 0.5}
        {"who": "b", "what": 1, "how": -1}
        {"who": "a", "what": 3, "how": 0.75}
        {"who": "a", "what": 100, "how": 0.5}
        {"who": "b", "what": 2, "how": 0}
        {"who": "none", "what": 1, "how": null}
        {"who": "none", "what": 2, "how": 0.5}
        {"who": "nan", "what": 4, "how": NaN}
        {"who": "no item", "what": null, "how": 0.5}
    """
    pull = pull_of(
        "a", "b", "none", "nan", "no item", **parquet(parsed(rows), tmp_path, **LONG, **LENIENT)
    )

    assert as_lists(pull) == {"a": ["3", "10", "100", "9"], "b": ["2", "1"]}
    assert scores_of(pull) == {"a": [0.75, 0.5, 0.5, 0.5], "b": [0.0, -1.0]}
    assert pull.failures == dict.fromkeys(["none", "nan", "no item"], CoverageReason.MALFORMED)


def test_scores_are_selected_by_jmespath(recommender):
    recommender.lists |= json.loads("""{
        "u": {"items": [{"id": 3, "score": 0.5}, {"id": "x", "score": 1}, {"id": 1, "score": null}]},
        "v": {"items": [{"id": 3, "score": 0.5}, {"id": 4}]},
        "w": {"items": [{"id": 3, "score": "0.5"}]},
        "x": {"items": [1, 2]},
        "y": {"items": [1], "scores": 1}
    }""")
    http = {
        "url": recommender.url,
        "items": "items[*].id || items",
        "scores": "items[*].score || scores",
    }

    pull = pull_of(*"vwxy", http=http)
    assert pull.failures == dict.fromkeys("vwxy", CoverageReason.MALFORMED)
    assert (
        ": expected a list of scores with one number for each item"
        in pull.notes[CoverageReason.MALFORMED]
    )

    http["scores"] = "map(&score, items)"
    pull = pull_of("u", "v", k=2, http=http)
    assert scores_of(pull) == {"u": [0.5, 1.0], "v": [0.5, None]}
