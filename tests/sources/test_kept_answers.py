"""Answers of a pull that lasts, kept for the same run begun again: what counts of them, and that they are removed."""

import itertools
import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from clocks import set_clock
from monitor.service.composition import open_wiring
from monitor.settings.configuration import Settings
from monitor.sources.http import source as http
from monitor.sources.kept_answers import AnswerFile, AnswerFolder
from monitor.sources.list_collector import ListCollector
from servers.disk import small_disk
from servers.lists import SLOT, request, source_of

LISTS = json.loads("""{
    "n1": [[7, 8], [0.1, null]],
    "n2": [[9], [1e300]],
    "t1": [["a", 8], [1, 2]],
    "t2": [[], []]
}""")
USERS, HOUR_S = list(LISTS), 3600


def lists_of(*users):
    found = ListCollector(3, has_scores=True)
    for user in users:
        items, scores = LISTS[user]
        found.add(user, items, scores, f"model of {user[0]}")
    return found


def fill(folder):
    """The file of a pull that was killed, of two lines: of the users whose items are numbers, and of the others."""
    file = AnswerFile(str(folder / "answers"), "?")
    lists = lists_of("n1", "n2")
    file.take(lists)()
    for user in ("t1", "t2"):
        items, scores = LISTS[user]
        lists.add(user, items, scores, f"model of {user[0]}")
    file.take(lists)()
    return file


def sorted_lists(collector):
    table = collector.pull().rankings
    scores, spans = table.scores.tolist(), itertools.pairwise(table.offsets)
    items = list(map(str, table.items))
    return sorted(
        (user, items[start:end], scores[start:end])
        for user, (start, end) in zip(table.users, spans, strict=True)
    )


def recall(folder):
    """Who is to be asked again; lists of the others, and their models, are as they were."""
    lists = ListCollector(3, has_scores=True)
    left = AnswerFile(str(folder / "answers"), "?").recall(USERS, lists, HOUR_S)
    expected = lists_of(*(user for user in USERS if user not in left))
    assert str(sorted_lists(lists)) == str(sorted_lists(expected))
    assert lists.pull().versions == expected.pull().versions
    return set(left)


NOISE = b"\0\xff{[\n00000000 []\n"
DAMAGES = {
    "none": (bytes, 0, []),
    "cut off": (lambda content: content[:-9], 0, ["t1", "t2"]),
    "another letter": (lambda content: content.replace(b"n2", b"n1", 1), 0, ["n1", "n2"]),
    "noise": (lambda content: NOISE + content + b"00000000 [0,", 0, []),
    "too old": (bytes, HOUR_S + 1, USERS),
    "of a clock that was ahead": (bytes, -HOUR_S, USERS),
}


@pytest.mark.parametrize(("damage", "later_s", "left"), DAMAGES.values(), ids=DAMAGES)
def test_as_far_as_the_file_is_whole_and_young_nobody_is_asked_again(
    damage, later_s, left, tmp_path, monkeypatch
):
    set_clock(monkeypatch, SLOT)
    fill(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    set_clock(monkeypatch, SLOT + timedelta(seconds=later_s))
    assert recall(tmp_path) == set(left)
    fill(tmp_path)  # behind half a line, too
    assert recall(tmp_path) == set()


@pytest.mark.integration
def test_where_the_disk_is_full_nothing_is_kept_and_the_reason_is_known(tmp_path):
    with small_disk(tmp_path / "small", "8k") as disk:
        (disk / "other").write_bytes(b"x" * 8192)
        assert fill(disk).write_error == f"{disk}: No space left on device"
        assert recall(disk) == set(USERS)


OTHERS = [
    (9, "baseline", {}),
    (5, "candidate", {}),
    (5, "baseline", {"headers": {"X-Variant": "b"}}),
]


@pytest.mark.parametrize("other", [(5, "baseline", {"concurrency": 1}), *OTHERS], ids=str)
def test_answers_to_another_question_are_none_to_this_one_and_who_had_none_is_asked_again(
    other, recommender, tmp_path, monkeypatch
):
    monkeypatch.setattr(http, "LASTS_S", 0.0)
    recommender.behaviour["t1"] = "missing"
    for k, whose, options in ((5, "baseline", {}), other):
        asked = replace(
            request(*USERS, k=k), answers_path=str(tmp_path / whose), answers_valid_s=HOUR_S
        )
        source_of(http={"url": recommender.url.split("?")[0], **options}).pull(asked)
    assert recommender.attempts == dict.fromkeys(USERS, 2 if other in OTHERS else 1) | {"t1": 2}


def test_a_file_goes_with_the_last_run_of_its_family_and_whatever_is_left_goes_too(
    tmp_path, monkeypatch
):
    set_clock(monkeypatch, SLOT)
    family, others = AnswerFolder(tmp_path, "feed", 2), AnswerFolder(tmp_path, "mail", 1)
    slots = SLOT, SLOT + timedelta(1)
    places = [Path(each.place(slot, "baseline")) for each in (family, others) for slot in slots]
    for place, age_s in zip(places, (0, 0, 86_460, 3_600), strict=True):
        place.touch()
        os.utime(place, (0, SLOT.timestamp() - age_s))
    family.run_stored(SLOT, "feed.b")
    assert set(tmp_path.iterdir()) == {places[0], places[3]}
    family.run_stored(SLOT, "feed.c")
    assert set(tmp_path.iterdir()) == {places[3]}


CONFIG = """
comparisons:
- name: feed
  every: 1d
  users: {file: {path: users.csv, user: user}}
  baseline: &recs {http: {url: "http://recs/{user}"}}
  candidate: *recs
"""


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ("database: sqlite:////data/rankwatch.db", "/data/rankwatch.db-answers"),
        ("{database: postgresql://db/rankwatch, answers_folder: /state}", "/state"),
        ("database: postgresql://db/rankwatch", None),
        ("{answers_folder: /state, privacy: {users: hmac, key_file: FOLDER/key}}", None),
    ],
)
def test_answers_lie_where_the_configuration_says_and_nowhere_where_users_are_hidden(
    settings, folder, tmp_path
):
    (tmp_path / "key").write_text("0123456789abcdef0123456789abcdef\n")
    given = yaml.safe_load(CONFIG) | yaml.safe_load(settings.replace("FOLDER", str(tmp_path)))

    answers = open_wiring(Settings.model_validate(given)).watched["feed"].answers

    assert folder == (answers and str(Path(answers.place(SLOT, "baseline")).parent))
