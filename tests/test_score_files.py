"""All scores of a run as a Parquet file: whole or not at all, never through a link, nothing left over."""

import os

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from factories import SLOT
from monitor.model.errors import OutputError
from monitor.model.runs import Scores
from monitor.storage import score_files
from monitor.storage.score_files import ScoreFiles

NAN = float("nan")


def batch(values, users=None):
    column = np.array(list(values.values()))
    names = pd.Index(users or list(values), dtype="object" if users else "str")
    return Scores(users=names, by_metric={"tau": column, "rbo(p=0.9)": -column})


def write(path, *batches):
    sink = ScoreFiles(path=str(path))
    with sink.open(
        SLOT, ["tau", "rbo(p=0.9)"], {"comparison": "feed", "config_hash": "abc"}
    ) as add:
        for each in batches:
            add(each)


def test_a_file_holds_every_user_with_a_column_a_metric_and_says_of_which_run(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(score_files, "ROW_GROUP_USERS", 1)
    write(
        tmp_path / "{slot:%Y}" / "{slot:%m-%d}.parquet",
        batch({"b": 0.5, "a": NAN}),
        batch({"\u00fc": -1.0}),
    )

    file = pq.ParquetFile(tmp_path / "2024" / "01-08.parquet")
    assert file.read().to_pydict() == {
        "user": ["b", "a", "\u00fc"],
        "tau": [0.5, None, -1.0],
        "rbo(p=0.9)": [-0.5, None, 1.0],
    }
    assert {str(field.type) for field in list(file.schema_arrow)[1:]} == {"double"}
    assert file.metadata.row_group(0).column(1).compression == "ZSTD"
    assert file.schema_arrow.metadata == {b"comparison": b"feed", b"config_hash": b"abc"}
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["01-08.parquet", "2024"]
    assert (tmp_path / "2024" / "01-08.parquet").stat().st_mode & 0o777 == 0o600  # it holds users


def test_scores_that_cannot_be_written_are_an_error_and_every_file_stays_as_it_was(tmp_path):
    pipe = tmp_path / "08.parquet"
    os.mkfifo(pipe)
    unwritable = "a text cannot be written or read as UTF-8"
    for target, user, words in (
        (pipe, "b", "it is a pipe"),
        (pipe / "below.parquet", "b", "(File exists|Not a directory)"),
        (tmp_path / "scores.parquet", "\ud800", unwritable),
    ):
        said = f"^scores_to: {target} was not written: .*{words}"
        with pytest.raises(OutputError, match=said):
            write(target, batch({"a": 0.5}), batch({user: 0.5}, [user]))
        assert [*tmp_path.iterdir()] == [pipe]


def test_a_run_that_breaks_while_it_writes_leaves_the_file_of_before(tmp_path):
    write(tmp_path / "scores", batch({"a": 0.5}))
    sink = ScoreFiles(path=f"{tmp_path}/scores")

    with pytest.raises(ZeroDivisionError), sink.open(SLOT, ["tau", "rbo(p=0.9)"], {}) as add:  # noqa: PT012 - in the block
        add(batch({"b": 0.5}))
        1 / 0  # noqa: B018

    assert pq.read_table(tmp_path / "scores").to_pydict()["user"] == ["a"]
    assert [each.name for each in tmp_path.iterdir()] == ["scores"]


def test_a_full_disk_leaves_nothing(monkeypatch, tmp_path):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write(tmp_path / "scores", batch({"a": 0.5}))
    assert not list(tmp_path.iterdir())
