"""Logs of what was served: the newest list of each user and arm of the slot, while the log grows."""

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from factories import DAY, HOUR, MINUTE
from monitor.model.errors import SourceError
from monitor.sources.file import FILE, FileSourceOptions, FileUsersOptions
from monitor.sources.file.file_set import held_files
from monitor.sources.file.source import FileUsers, ListView
from servers.lists import SLOT, as_lists, pull_of
from sources.file.test_joined import DIMENSIONS, WRITERS, arms_of, measure, second_ring

# Minutes after the slot, the user, the arm, the items, and the request.
LOG = json.loads("""[
    [-60, "u1", "a", ["too", "early"], 1],
    [-59, "u1", "a", ["older"], 2],
    [-1, "u2", "a", ["2a", "x"], 3],
    [0, "u1", "a", ["1a", "y"], 4],
    [-30, "u1", "b", ["1b", "y"], 5],
    [0.001, "u1", "b", ["too late"], 6],
    [-2, "u3", "b", ["only", "b"], 7],
    [-5, "u4", "a", ["tied"], 8],
    [-5, "u4", "a", ["tied, later request", "z"], 9]
]""")
SERVED = json.loads("""{
    "a": {"u1": ["1a", "y"], "u2": ["2a", "x"], "u4": ["tied, later request", "z"]},
    "b": {"u1": ["1b", "y"], "u3": ["only", "b"]}
}""")

# Between these fixed times, whatever the slot.
PERIOD = {
    "within": None,
    "since": (SLOT - HOUR).isoformat(),
    "until": (SLOT - 2 * MINUTE).isoformat(),
}
EARLIER = json.loads("""{
    "a": {"u1": ["older"], "u4": ["tied, later request", "z"]},
    "b": {"u1": ["1b", "y"], "u3": ["only", "b"]}
}""")


TIMES = {
    "iso": datetime.isoformat,
    "other zone": lambda at: at.astimezone(timezone(2 * HOUR)).isoformat(),
    "no zone": lambda at: at.replace(tzinfo=None).isoformat(),
    "timestamp": lambda at: at,
}


def write_log(folder, kept="jsonl", form="wide", time="iso"):
    """Options of the log but for the arm."""
    names = ("served_at", "user", "variant", "items", "request", *DIMENSIONS)
    rows = []
    for minutes, *told in LOG:
        at = TIMES[time](SLOT + minutes * MINUTE)
        rows.append(
            dict(zip(names, (at, *told, "DE", 1, "true" if kept == "csv" else True), strict=True))
        )
    columns = {"items": "items"}
    if form == "long":
        columns = {"item": "item", "rank": "rank"}
        rows = [
            row | {"item": item, "rank": rank}
            for row in rows
            for rank, item in enumerate(row.pop("items"))
        ]
    WRITERS[f".{kept}"](pa.Table.from_pylist(rows), folder / f"log.{kept}")
    served = {"time": "served_at", "within": "1h", "request": "request"}
    return {"path": f"{folder}/log.{kept}", "user": "user", "served": served, **columns}


def of_arm(log, arm):
    return log | {"served": log["served"] | {"arm": {"variant": arm, "vip": "true"}}}


@pytest.mark.parametrize(
    "kept, form, time",
    [
        ("jsonl", "wide", "other zone"),
        ("csv", "long", "no zone"),
        second_ring("parquet", "wide", "timestamp"),
    ],
)
def test_the_newest_list_of_each_user_and_arm_within_the_slot_counts(tmp_path, kept, form, time):
    log = write_log(tmp_path, kept, form, time)
    fixed = log | {"served": log["served"] | PERIOD}

    for options, expected in ((log, SERVED), (fixed, EARLIER)):
        for arm, lists in expected.items():
            assert as_lists(pull_of("u1", "u2", "u3", "u4", file=of_arm(options, arm))) == lists


@pytest.mark.parametrize(
    "kept, form, rest", [("jsonl", "wide", '{"served_at": "2024'), ("csv", "long", "2024-01")]
)
def test_a_log_is_read_to_its_last_whole_line_and_may_grow_meanwhile(
    tmp_path, monkeypatch, kept, form, rest
):
    log = write_log(tmp_path, kept, form)
    pull = ListView.pull_rows

    def append(text):
        with Path(log["path"]).open("a") as file:
            file.write(text)

    def grow(*given):
        append(f"more\n{rest}")
        return pull(*given)

    append(rest)
    with pytest.raises(SourceError, match=r"the file is cut off or still|has 1 value, but the"):
        pull_of("u1", file=log | {"served": None})
    monkeypatch.setattr(ListView, "pull_rows", grow)

    assert as_lists(pull_of("u1", "u2", "u4", file=of_arm(log, "a"))) == SERVED["a"]


def test_a_log_without_the_column_of_the_arm_is_named_by_its_own_path(tmp_path):
    log = write_log(tmp_path, "csv")
    log["served"] |= {"arm": {"variants": "a"}}
    with pytest.raises(SourceError, match=f"{log['path']} has no column 'variants'"):
        pull_of("u1", file=log)


@pytest.mark.parametrize(
    "period, span",
    [
        ({"within": "1m"}, "in the 1m up to 2024-01-08T12:30:00Z"),
        (
            PERIOD | {"until": "2024-01-08T11:45"},
            "after 2024-01-08T11:30:00Z and up to 2024-01-08T11:45:00Z",
        ),
    ],
)
def test_a_log_without_a_list_in_time_says_so(tmp_path, period, span):
    log = write_log(tmp_path)
    log["served"] |= period
    with pytest.raises(
        SourceError,
        match=rf"no row with variant = 'b' and vip = 'true' {span} \(its newest row has the time 2024-01-08T12:30",
    ):
        pull_of("u1", file=of_arm(log, "b"))


@pytest.mark.parametrize("kept, path", [("csv", "12-30.csv"), ("parquet", "{slot:%H-%M}.parquet")])
def test_todays_lists_are_compared_with_the_lists_of_a_fixed_time_in_one_log_or_in_a_file_a_day(
    tmp_path, kept, path
):
    log = write_log(tmp_path, kept, form="long")
    today = of_arm(log, "a")
    Path(log["path"]).rename(tmp_path / f"12-28.{kept}")
    (tmp_path / f"12-30.{kept}").write_bytes((tmp_path / f"12-28.{kept}").read_bytes())
    today["path"] = str(tmp_path / path)
    baseline = FileSourceOptions(**today | {"served": today["served"] | PERIOD})
    candidate = FileSourceOptions(**today)
    arms = arms_of(baseline, candidate, FILE.all_users(candidate))  # type: ignore[misc]
    pulled, joined = (measure(given, slot=SLOT) for given in (replace(arms, joined=None), arms))

    for found in (pulled, joined):
        assert (found.coverage.all.asked, found.coverage.all.paired) == (4, 2)
        lists = {each.user: (each.baseline, each.candidate) for each in found.run.evidence}
        assert lists["u1"] == (("older",), ("1a", "y"))
        assert lists["u4"] == (("tied, later request", "z"), ("tied, later request", "z"))


def test_the_users_of_a_log_may_be_of_any_age(tmp_path):
    log = write_log(tmp_path)
    log["served"]["within"] = None
    users = FileUsersOptions(**{key: log[key] for key in ("path", "user", "served")})

    assert {*FileUsers(users).users(SLOT + 4000 * DAY, ()).users} == {"u1", "u2", "u3", "u4"}


def test_a_log_of_several_files_may_get_another_file_while_it_is_read(tmp_path):
    log = write_log(tmp_path, "parquet")
    options = FileSourceOptions(**log | {"path": str(tmp_path)})
    with held_files(options, SLOT) as files:
        Path(log["path"]).with_name("later.parquet").write_bytes(b"")
        assert not files.is_changed()
        Path(log["path"]).unlink()
        assert files.is_changed()
