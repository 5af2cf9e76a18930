"""monitor.summarize, and what chance alone would give."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import monitor
from monitor.model.errors import InputError

FRAME = pd.DataFrame(
    {"overlap": [0.0, 0.5, 1.0, np.nan], "rbo(p=0.9)": [0.1, 0.1, 0.1, 0.1]},
    index=pd.Index(["a", "b", "c", "d"], name="user"),
)
BY = {"a": "x", "b": "x", "c": "y", "d": None}


def test_a_row_a_metric_holds_how_many_how_alike_and_how_sure():
    found = monitor.summarize(FRAME)

    columns = "n n_undefined mean standard_error p05 p25 median p75 p95 by_chance"
    assert " ".join(found.columns) == columns
    assert (found.index.name, found.index.tolist()) == ("metric", list(FRAME.columns))
    expected = [3, 1, 0.5, 0.5 / np.sqrt(3), 0.05, 0.25, 0.5, 0.75, 0.95, np.nan]
    np.testing.assert_allclose(found.loc["overlap"], expected, rtol=0, atol=1e-12)


def test_segments_may_be_a_dict_or_a_series_or_a_column_or_a_level():
    for by, frame in [
        (BY, FRAME),
        (pa.array(BY.values()), FRAME),
        (pd.Series(BY | {"nobody": "z"})[::-1], FRAME),
        ("segment", FRAME.assign(segment=pd.Series(BY))),
        ("segment", FRAME.assign(segment=pd.Series(BY)).set_index("segment", append=True)),
    ]:
        found = monitor.summarize(frame, by)

        assert found.index.names == ["metric", "segment"]
        assert found.xs("overlap").index.tolist() == ["all", "x", "y"]
        assert found["mean"].tolist()[:3] == [0.5, 0.25, 1.0]
        assert found["n"].tolist() == [3, 2, 1, 4, 2, 1]


def test_nothing_defined_is_nan_and_one_user_has_no_standard_error():
    nobody = monitor.summarize(monitor.compare_many({}, {}, "overlap"))
    found = monitor.summarize(pd.DataFrame({"m": [np.nan, np.nan]}))
    alone = monitor.summarize(pd.DataFrame({"m": [2.0]}))

    assert nobody[["n", "n_undefined"]].to_numpy().tolist() == [[0, 0]]
    assert found[["n", "n_undefined"]].to_numpy().tolist() == [[0, 2]]
    assert found.drop(columns=["n", "n_undefined"]).isna().all(axis=None)
    assert alone["mean"].tolist() == [2.0]
    assert alone["standard_error"].isna().all()


def test_segments_that_are_no_text_and_hold_two_levels_are_kept():
    found = monitor.summarize(FRAME, [(1, "x"), 2, 2, (1, "x")])

    assert found.xs("overlap").index.tolist() == ["all", (1, "x"), 2]


def test_what_cannot_be_summarized_is_refused_by_name():
    for frame, by, message in [
        (
            FRAME,
            "overlaps",
            r"level 'overlaps' \(did you mean 'overlap'\?\); found 'user', .*'overlap'",
        ),
        (
            FRAME,
            pd.DataFrame({"users": ["a"], "country": ["DE"]}),
            r"no column 'user' \(did you mean 'users'\?\); found 'users', 'country'",
        ),
        (FRAME, ["x"], "by has 1 segments for 4 users"),
        (
            FRAME,
            {1: "x"},
            "by has none of the users: it has users such as 1, the frame has users such as 'a'",
        ),
        (FRAME, pd.Series(["x", "y"], index=["a", "a"]), "by has user 'a' twice"),
        (FRAME.assign(name="x"), None, "column 'name' has no scores"),
        (FRAME[[]], None, "frame has no column of scores"),
        (pa.table({"m": [1]}), None, "frame is of type Table: give the pandas frame"),
        (FRAME, {"x"}, "no column or index level {'x'}"),
        (FRAME, BY | {"d": "all"}, "named 'all'"),
        (FRAME, np.array([["x"]] * 4), "several dimensions"),
    ]:
        with pytest.raises(InputError, match=message):
            monitor.summarize(frame, by)


RNG = np.random.default_rng(1)
TENS = {user: RNG.permutation(50)[:10].tolist() for user in range(40)}
OTHERS = {user: RNG.permutation(50)[:10].tolist() for user in range(40)}


def test_the_frame_has_the_scores_of_unrelated_lists():
    found = monitor.compare_many(TENS, OTHERS, ("extended_tau", "overlap"))

    by_chance = found.attrs["by_chance"]
    assert found.attrs["catalogue"] == 50
    assert by_chance["extended_tau"] == pytest.approx(-0.67, abs=0.005)
    assert by_chance["overlap"] == pytest.approx(10 / 50)
    assert monitor.summarize(found)["by_chance"].to_dict() == by_chance


def test_chance_follows_k_and_a_catalogue_that_may_be_larger_than_what_is_listed_but_not_smaller():
    cut = monitor.compare_many(TENS, OTHERS, "overlap", 4).attrs
    found = monitor.compare_many(TENS, OTHERS, "overlap", catalogue=1000).attrs

    assert cut["by_chance"] == {"overlap": pytest.approx(4 / 50)}
    assert found["by_chance"] == {"overlap": pytest.approx(0.01)}
    assert found["catalogue"] == 1000
    with pytest.raises(InputError, match="catalogue is 49, but the lists have 50 different items"):
        monitor.compare_many(TENS, OTHERS, "overlap", catalogue=49)
    for wrong in (0, 1.5, "50", True):
        with pytest.raises(InputError, match="catalogue must be"):
            monitor.compare_many(TENS, OTHERS, "overlap", catalogue=wrong)  # type: ignore[arg-type]


def test_ragged_lists_have_no_value_by_chance():
    for lists, by_chance in [
        ({user: items[: 10 - user % 3] for user, items in TENS.items()}, None),
        (TENS | {7: TENS[7][:9]}, pytest.approx(10 / 49)),  # one of the 50 items is in no list
        ({1: []}, None),
    ]:
        found = monitor.compare_many(lists, lists, "overlap")
        assert found.attrs["by_chance"] == {"overlap": by_chance}
