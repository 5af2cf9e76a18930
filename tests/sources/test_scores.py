"""The models' scores of the items in lists, from every kind of source, with odd values."""

import json
from dataclasses import replace

import numpy as np
import pytest

from monitor.model.errors import SourceError
from servers.lists import as_lists, pull_of
from sources.tables import parquet, writers
from tables import parsed

WIDE = {"user": "who", "items": "what", "scores": "how"}
LONG = {"user": "who", "item": "what", "scores": "how"}
RANKED = LONG | {"rank": "place"}
LENIENT = {"max_unreadable": 1}
OF_LISTS = writers(("who", "what", "how"), **WIDE)


def scores_of(pull):
    """The scores of each list, None where there is none."""
    assert pull.rankings.scores.dtype == np.float64
    scored = replace(pull, rankings=replace(pull.rankings, items=pull.rankings.scores))
    return {
        user: [None if score == "nan" else float(score) for score in scores]
        for user, scores in as_lists(scored).items()
    }


@pytest.mark.parametrize("kept", ["parquet", "csv", "sqlite"])
def test_scores_stay_with_their_items_if_users_are_left_out(kept, tmp_path):
    rows = [("a", [5, 3, 9], [0.75, 0.5, None]), ("b", [7], [-2.0]), ("c", [1, 2], [3.25, 3.25])]
    pull, part = (pull_of(*users, **OF_LISTS[kept](rows, tmp_path)) for users in ("cab", "cx"))

    assert as_lists(pull) == {"a": ["5", "3", "9"], "b": ["7"], "c": ["1", "2"]}
    assert scores_of(pull) == {"a": [0.75, 0.5, None], "b": [-2.0], "c": [3.25, 3.25]}
    assert scores_of(part) == {"c": [3.25, 3.25]}


NOT_AS_MANY = json.loads("[[0.5], [0.5, 0.4, 0.3], [], null]")
NO_NUMBERS = json.loads('[[1.0, "x"], [1.0, true], [1.0, [1]], [1.0, {}]]')
NO_NUMBERS.append([1.0, 10**400])


@pytest.mark.parametrize(
    "kept, odd", [*((kept, NOT_AS_MANY) for kept in OF_LISTS), ("jsonl", NO_NUMBERS)]
)
def test_scores_that_are_no_numbers_or_not_as_many_as_items_make_one_list_malformed(
    kept, odd, tmp_path
):
    bad = list(map(str, range(len(odd))))
    rows = [(user, [3, 4], scores) for user, scores in zip(bad, odd, strict=True)]

    pull = pull_of("good", *bad, **OF_LISTS[kept]([("good", [1, 2], [2.0, 1.0]), *rows], tmp_path))

    assert scores_of(pull) == {"good": [2.0, 1.0]}
    assert pull.failures == dict.fromkeys(bad, "malformed")
    assert "scores" in pull.notes["malformed"]


def test_in_long_form_scores_follow_ranks_and_text_that_is_no_number_makes_its_list_malformed(
    tmp_path,
):
    path = tmp_path / "lists.csv"
    path.write_text("who,what,how,place\na,2,,2\na,1,0.5,1\nb,3,1e2,1\nb,4,oops,2\n")

    pull = pull_of("a", "b", file=RANKED | LENIENT | {"path": str(path)})

    assert as_lists(pull) == {"a": ["1", "2"]}
    assert scores_of(pull) == {"a": [0.5, None]}
    assert pull.failures == {"b": "malformed"}


def test_without_ranks_items_are_ordered_by_score_then_by_id_and_a_missing_score_is_malformed(
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
    assert pull.failures == dict.fromkeys(["none", "nan", "no item"], "malformed")


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

    assert pull_of(*"vwxy", http=http).failures == dict.fromkeys("vwxy", "malformed")

    http["scores"] = "map(&score, items)"
    assert scores_of(pull_of("u", "v", k=2, http=http)) == {"u": [0.5, 1.0], "v": [0.5, None]}


@pytest.mark.parametrize(
    "columns, item, odd",
    [(WIDE, [1], [True]), (WIDE, [1], "[1]"), (LONG, 1, True)],
)
def test_a_column_that_cannot_hold_scores_is_refused(columns, item, odd, tmp_path):
    given = parquet([{"who": "a", "what": item, "how": odd}], tmp_path, **columns)

    with pytest.raises(
        SourceError, match=r"column 'how' of .*\.parquet holds .*: it must hold (lists of )?numbers"
    ):
        pull_of("a", **given)
