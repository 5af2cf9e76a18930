"""Logs of what was served: the newest list of each user and arm of the slot, while the log grows."""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from monitor.model.errors import SourceError
from monitor.model.rankings import Arm, CoverageReason
from monitor.sources.file import FILE, FileSourceOptions
from monitor.sources.file.source import ListView
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


TIMES = {
    "iso": datetime.isoformat,
    "other zone": lambda at: at.astimezone(timezone(timedelta(hours=2))).isoformat(),
    "no zone": lambda at: at.replace(tzinfo=None).isoformat(),
    "timestamp": lambda at: at,
}


def write_log(folder, kept="jsonl", form="wide", time="iso"):
    """Options of the log but for the arm."""
    names = ("served_at", "user", "variant", "items", "request", *DIMENSIONS)
    rows = []
    for minutes, *told in LOG:
        at = TIMES[time](SLOT + timedelta(minutes=minutes))
        rows.append(dict(zip(names, (at, *told, "DE", 1, True), strict=True)))
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
    return {"path": str(folder / f"log.{kept}"), "user": "user", "served": served, **columns}


def of_arm(log, arm):
    return log | {"served": log["served"] | {"arm": {"variant": arm}}}


@pytest.mark.parametrize(
    ("kept", "form", "time"),
    [
        ("jsonl", "wide", "other zone"),
        ("csv", "long", "no zone"),
        second_ring("parquet", "wide", "timestamp"),
    ],
)
def test_the_newest_list_of_each_user_and_arm_within_the_slot_counts(tmp_path, kept, form, time):
    log = write_log(tmp_path, kept, form, time)

    for arm, lists in SERVED.items():
        assert as_lists(pull_of("u1", "u2", "u3", "u4", file=of_arm(log, arm))) == lists


def test_users_whom_one_arm_alone_served_are_missing_in_the_other_pulled_and_joined(tmp_path):
    log = write_log(tmp_path, form="long")
    baseline, candidate = (FileSourceOptions(**of_arm(log, arm)) for arm in "ab")
    arms = arms_of(baseline, candidate, FILE.all_users(baseline))  # type: ignore[misc]

    for given in (arms, replace(arms, joined=None)):
        found = measure(given, slot=SLOT)
        assert (found.coverage.all.asked, found.coverage.all.paired) == (4, 1)
        assert [found.coverage.all.users_by_reason[arm, CoverageReason.MISSING] for arm in Arm] == [
            1,
            2,
        ]


@pytest.mark.parametrize(
    ("kept", "form", "rest"), [("jsonl", "wide", '{"served_at": "2024'), ("csv", "long", "2024-01")]
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
        append("more\n" + rest)
        return pull(*given)

    append(rest)
    with pytest.raises(SourceError, match=r"the file is cut off or still|has 1 value, but the"):
        pull_of("u1", file=log | {"served": None})
    monkeypatch.setattr(ListView, "pull_rows", grow)

    assert as_lists(pull_of("u1", "u2", "u4", file=of_arm(log, "a"))) == SERVED["a"]


def test_a_log_without_a_list_in_time_says_so(tmp_path):
    log = write_log(tmp_path)
    with pytest.raises(
        SourceError,
        match=r"no list that was served in the 1h up to 2024-01-08T12:30:00Z \(no row of this arm",
    ):
        pull_of("u1", file=of_arm(log, "c"))
