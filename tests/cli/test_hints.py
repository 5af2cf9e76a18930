"""Commands say why nothing meets and what matches nothing, and the settings that they propose help."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from commands import objects, of_all, rankwatch, read_json

LONG = "user_id,item,rank\n"
COMPARE = "compare base.csv other.csv --item item --rank rank"


def write_long(name, *items, user="1"):
    Path(name).write_text(
        LONG + "".join(f"{user},{item},{rank}\n" for rank, item in enumerate(items))
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, sqlite_template):
    shutil.copy(sqlite_template, tmp_path)
    write_long("base.csv", "42", "7")


def test_with_the_option_that_compare_proposes_the_items_match():
    write_long("other.csv", "SKU-42", "SKU-7")
    said = rankwatch(COMPARE).stdout.splitlines()[1]
    assert said.startswith("no item is in both arms: ")
    proposed = re.search(r"Add (--item-ids .*): then 2 of 2 match", said)
    assert proposed is not None

    done = rankwatch(f"{COMPARE} {proposed[1]} --json")
    (found,) = objects(done)
    assert (of_all(found)["overlap"]["mean"], found["id_mismatches"]) == (1.0, [])


def test_users_that_are_spelled_otherwise_are_named_where_nobody_can_be_compared():
    write_long("other.csv", "42", "7", user="user-1")
    done = rankwatch(COMPARE)

    assert done.returncode != 0
    assert (
        "the ids differ in their prefix, such as '1' in the baseline and 'user-1' in the candidate"
        in done.stderr
    )
    option = "--user-ids " + shlex.quote('[{prefix: "user-"}]')
    assert f"Add {option}: then 1 of 1 match" in done.stderr
    assert rankwatch(f"{COMPARE} {option}").returncode == 0


CONFIGURATION = """
database: sqlite:///rankwatch.db
comparisons:
  - name: shop
    every: 1d
    k: 2
    baseline: {file: {path: lists.jsonl, user: user, items: items}}
    candidate: {file: {path: other.jsonl, user: user, items: items}}
    users: {file: {path: lists.jsonl, user: user}, segments: [country]}
    rules: [{alert: Low, metric: overlap, below: 0.9, min_users: 1, segments: ['country=no']}]
maintenance: [{name: night, match: ['alert=Lwo'], cron: '0 2 * * *', for: 2h}]
"""


def write_world(prefix):
    Path("rankwatch.yaml").write_text(CONFIGURATION)
    for name, start in (("lists.jsonl", ""), ("other.jsonl", prefix)):
        rows = ({"user": f"u{n}", "items": [f"{start}{n}"], "country": "NO"} for n in range(30))
        Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_check_a_run_show_and_alerts_name_what_matches_nothing_and_why_nothing_meets():
    write_world("item-")
    segment = "nothing matches rule Low: there is no segment country=no. Did you mean country=NO?"
    window = "nothing matches maintenance night: no alert has alert=Lwo. Did you mean Low?"
    items = "no item is in both arms: the ids differ in their prefix, such as "

    for command in ("check", "run-once --slot 2024-01-08", "show shop"):
        said = rankwatch(command).stdout
        assert segment in said
        assert window in said
        assert items in said
    absent = "no user of the panel belongs to country=no. Did you mean country=NO?"
    assert absent in rankwatch("alerts").stdout


def test_a_silence_that_matches_nothing_is_named_when_it_is_added_and_listed_and_by_runs():
    write_world("")
    rankwatch("run-once --slot 2024-01-08")
    said = "nothing matches silence 1: no alert has alrt=NoData"

    assert said in rankwatch("silence add alrt=NoData --for 1h --by kim").stderr
    assert said in rankwatch("silence").stderr
    assert said in rankwatch("run-once --slot 2024-01-09").stdout


def test_alerts_print_what_segments_share_once_and_a_failed_run_prints_no_empty_table():
    write_world("item-")
    Path("rankwatch.yaml").write_text(CONFIGURATION.replace("['country=no']", "each"))
    assert "Low[all and 1 more] quiet -> firing" in rankwatch("run-once --slot 2024-01-08").stdout
    _all, _country = read_json("alerts")
    Path("other.jsonl").unlink()
    rankwatch("run-once --slot 2024-01-09")
    shared = "(?s)Low +all and 1 more +firing.*RunFailing +all +pending.* see Low.* below 0.9"
    assert re.search(shared, rankwatch("alerts").stdout)
    assert "standard error" not in rankwatch("show shop").stdout
