"""The answers of a long pull are kept until the same run begins again. Which of them count, and when they are removed."""

import itertools
import json
import os
import time
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
from tables import parsed

LISTS = json.loads("""{
    "n1": [[7, 8], [0.1, null]],
    "n2": [[9], [1e300]],
    "t1": [["a", 8], [1, 2]],
    "t2": [[], []]
}""")
USERS, HOUR_S = list(LISTS), 3600


def lists_of(*users, found=None):
    found = found or ListCollector(3, has_scores=True)
    for user in users:
        items, scores = LISTS[user]
        found.add(user, items, scores, f"model of {user[0]}")
    return found


def fill(folder):
    """The file of a pull that was killed. It has a line with users whose items are numbers, and a line with the others."""
    file = AnswerFile(f"{folder}/answers", "?")
    lists = lists_of("n1", "n2")
    file.take(lists)()
    file.take(lists_of("t1", "t2", found=lists))()
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
    """The users to request again. The lists of the others, and their models, are as before."""
    lists = ListCollector(3, has_scores=True)
    left = AnswerFile(f"{folder}/answers", "?").recall(USERS, lists, HOUR_S)
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


@pytest.mark.parametrize("damage, later_s, left", DAMAGES.values(), ids=DAMAGES)
def test_only_users_whose_answers_are_damaged_or_too_old_are_requested_again(
    damage, later_s, left, tmp_path, monkeypatch
):
    set_clock(monkeypatch, SLOT)
    fill(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    set_clock(monkeypatch, SLOT + timedelta(seconds=later_s))
    assert recall(tmp_path) == set(left)
    fill(tmp_path)  # behind half a line, too
    assert not recall(tmp_path)


@pytest.mark.integration
def test_nothing_is_kept_on_a_full_disk_and_the_reason_is_known(tmp_path):
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
def test_only_answers_to_the_same_requests_count_and_users_without_an_answer_are_requested_again(
    other, recommender, tmp_path, monkeypatch
):
    monkeypatch.setattr(http, "LASTS_S", 0.0)
    monkeypatch.setattr(http, "_REPORT_S", 60.0)  # a pull ends when its answers are written
    recommender.behaviour["t1"] = "missing"
    for k, whose, options in ((5, "baseline", {}), other):
        asked = replace(
            request(*USERS, k=k), answers_path=str(tmp_path / whose), answers_valid_s=HOUR_S
        )
        source_of(http={"url": recommender.url.split("?")[0], **options}).pull(asked)
    assert recommender.attempts == dict.fromkeys(USERS, 2 if other in OTHERS else 1) | {"t1": 2}


def test_answers_that_come_while_earlier_ones_are_written_are_stored_too(
    recommender, tmp_path, monkeypatch
):
    monkeypatch.setattr(http, "LASTS_S", 0.0)
    monkeypatch.setattr(http, "_REPORT_S", 60.0)
    write = AnswerFile._write

    def write_slowly(file, rows):
        time.sleep(0.5)
        write(file, rows)

    monkeypatch.setattr(AnswerFile, "_write", write_slowly)
    asked = replace(request(*USERS), answers_path=str(tmp_path / "kept"), answers_valid_s=HOUR_S)
    options = {"url": recommender.url.split("?")[0], "concurrency": 1}
    for _ in range(2):
        source_of(http=options).pull(asked)
    assert recommender.attempts == dict.fromkeys(USERS, 1)


def test_a_file_is_removed_after_the_last_run_of_its_family_and_old_files_too(
    tmp_path, monkeypatch
):
    set_clock(monkeypatch, SLOT)
    family, others = AnswerFolder(tmp_path, "feed", 2), AnswerFolder(tmp_path, "mail", 1)
    slots = SLOT, SLOT + timedelta(1)
    places = [
        Path(each.path_start(slot, "baseline")) for each in (family, others) for slot in slots
    ]
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
    "settings, folder",
    parsed("""
        ["database: sqlite:////data/rankwatch.db", "/data/rankwatch.db-answers"]
        ["{database: postgresql://db/rankwatch, answers_folder: /state}", "/state"]
        ["database: postgresql://db/rankwatch", null]
        ["{answers_folder: /state, privacy: {users: hmac, key_file: FOLDER/key}}", null]
    """),
)
def test_answers_are_in_the_configured_folder_and_are_not_kept_if_users_have_pseudonyms(
    settings, folder, tmp_path
):
    (tmp_path / "key").write_text("0123456789abcdef0123456789abcdef\n")
    given = yaml.safe_load(CONFIG) | yaml.safe_load(settings.replace("FOLDER", str(tmp_path)))

    answers = open_wiring(Settings.model_validate(given)).watched["feed"].answers

    assert folder == (answers and str(Path(answers.path_start(SLOT, "baseline")).parent))
