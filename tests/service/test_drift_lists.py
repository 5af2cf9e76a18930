"""Replay over real lists, checked against computations of its own; and what the default rules see in a generated shop's."""

import math
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drift_lists import compare, lists_folder, run_cli, source, write_config
from kernels import reference

pytestmark = pytest.mark.early

CANDIDATES = ("ok-seed", "pop20", "trunc5", "missing5")
DAYS = [f"2024-01-{day:02}" for day in range(1, 12)]
K, P = 10, 0.9

MEASURED = """    users: {all: true, segments: [activity, country]}
    metrics: [extended_tau, "rbo(p=0.9)", overlap]
"""
HEALTHY = ("ok-seed", "ok-lowtraffic")
WITH_FLOOR = ("pop20", "ok-lowtraffic")
"""Their baseline was trained a second time."""
FIRST_ALARM = {
    "pop20": "2024-01-08",
    "seg2-nonUK-pop": "2024-01-08",
    "trunc5": "2024-01-08",
    "missing5": "2024-01-08",
    "stale3": "2024-01-07",  # frozen from day 5 on: the third training of the baseline that it misses
}
ALARMS = {
    ("pop20", "UsersVeryFar", "all", "2024-01-08"),
    ("pop20", "TailDropped", "all", "2024-01-08"),
    ("seg2-nonUK-pop", "SimilarityDropped", "country=nonUK", "2024-01-08"),
    ("trunc5", "ListsShort", "all", "2024-01-08"),
    ("missing5", "ListsMissing", "all", "2024-01-08"),
    ("stale3", "CandidateFrozen", "all", "2024-01-07"),
}


@cache
def lists_of(name: str, day: str) -> dict[str, list[int]]:
    frame = pd.read_parquet(lists_folder() / name / f"{day}.parquet")
    return {user: [int(item) for item in items][:K] for user, items in zip(frame.user_id, frame["items"], strict=True)}


def rbo_at_p(a: list[int], b: list[int]) -> float:
    return reference.rbo(a, b, P)


@cache
def mean_over_users(name: str, day: str, measure: Callable[[list[int], list[int]], float]) -> float:
    baseline, candidate = lists_of("baseline", day), lists_of(name, day)
    scores = [measure(baseline[user], candidate[user]) for user in sorted(baseline.keys() & candidate.keys())]
    return math.fsum(scores) / len(scores)


Runs = dict[tuple[str, str], dict[str, Any]]
"""What a replay printed, by comparison and day."""


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Runs]:
    """The configuration of healthy and of faulty candidates under the default rules, whose runs are stored, and its runs."""
    names = (*HEALTHY, *FIRST_ALARM)
    config = str(write_config(tmp_path_factory.mktemp("replayed"), *map(compare_by_default, names)))
    found: Runs = {}
    for name in names:
        last = "2024-01-14" if name in {*HEALTHY, "stale3"} else DAYS[-1]  # its trend takes its time
        runs = run_cli("replay", name, "--config", config, "--from", DAYS[0], "--to", last, "--json")
        found |= {(name, run["slot"][:10]): run for run in runs}
        assert [run["status"] for run in runs] == ["ok"] * int(last[-2:])
    return config, found


def compare_by_default(name: str) -> str:
    prefix = "ok-lowtraffic-" if name == "ok-lowtraffic" else ""
    floor = f"    noise_floor: {{retrain: {source(f'{prefix}again')}}}\n" if name in WITH_FLOOR else ""
    return compare(name, f"{MEASURED}    rules: default\n{floor}", baseline=f"{prefix}baseline")


def test_means_of_every_day_agree_with_equation_32_and_on_some_days_with_scipy(replayed: tuple[str, Runs]) -> None:
    _, runs = replayed
    for name, day in ((name, day) for name in CANDIDATES for day in DAYS):
        means = {metric: found["all"]["mean"] for metric, found in runs[name, day]["summaries"].items()}
        assert means["rbo(p=0.9)"] == pytest.approx(mean_over_users(name, day, rbo_at_p), abs=1e-9)
        if day in {"2024-01-02", "2024-01-11"} or name == "pop20":
            assert means["extended_tau"] == pytest.approx(mean_over_users(name, day, reference.extended_tau), abs=1e-9)
    known = [runs[name, "2024-01-11"]["summaries"]["extended_tau"]["all"]["mean"] for name in ("ok-seed", "pop20")]
    assert known == pytest.approx([0.521, 0.254], abs=5e-4)


def test_the_default_rules_fire_on_the_first_bad_day_and_are_quiet_over_healthy_candidates(replayed: tuple[str, Runs]) -> None:
    config, runs = replayed
    changes = run_cli("alerts", "--config", config, "--json")
    first: dict[str, str] = {}
    for each in changes:
        if each["to"] == "firing":
            first.setdefault(each["comparison"], each["slot"][:10])
    assert first == FIRST_ALARM
    firing = {(each["comparison"], each["alert"], each["segment"], each["slot"][:10]) for each in changes}
    assert firing >= ALARMS
    assert {name for name, alert, *_ in firing if alert == "BeyondNoise"} == {"pop20"}
    assert {name for (name, _), run in runs.items() if "over_floor(extended_tau)" in run["summaries"]} == set(WITH_FLOOR)
    drifted = {each["alert"] for each in changes if each["comparison"] == "stale3"}
    assert {"CandidateFrozen", "UsersVeryFarMore"} <= drifted  # what an alarm for all found is not taken for normal


def test_alerts_say_what_was_done_to_the_lists(replayed: tuple[str, Runs]) -> None:
    changes = run_cli("alerts", "--config", replayed[0], "--json")
    (far,) = [
        each for each in changes if (each["comparison"], each["alert"], each["segment"]) == ("pop20", "UsersVeryFar", "all")
    ]
    assert far["value"] > far["threshold"]
    assert "after 7 healthy runs" in far["reason"]
    assert far["explanation"].startswith(
        "141 of 704 users (20 %) all get the same list from the candidate: the most popular items."
    )
    fell = [each for each in changes if (each["alert"], each["segment"]) == ("SimilarityDropped", "country=nonUK")]
    assert ["exactly those of country=nonUK, all get" in each["explanation"] for each in fell if each["value"] < 0] == [True]


def explained(config: str, name: str, day: str) -> dict[str, Any]:
    """The explanation of a run, whose pieces sum to its drop, over all users and over the segments of each dimension."""
    (shown,) = run_cli("show", name, "--slot", day, "--config", config, "--json")
    told: dict[str, Any] = shown["explanation"]
    (mean,) = [row["mean"] for row in shown["summaries"] if (row["segment"], row["metric"]) == ("all", "extended_tau")]
    assert 1 - told["now"] == pytest.approx(mean, abs=1e-9)
    drop = told["now"] - told["before"]
    assert math.fsum(cause["amount"] for cause in told["causes"]) == pytest.approx(drop, abs=1e-9)
    for dimension in ("activity", "country"):
        falls = [fall["parts"] for fall in told["falls"] if fall["segment"].startswith(f"{dimension}=")]
        assert math.fsum(amount for parts in falls for amount in parts.values()) == pytest.approx(drop, abs=1e-9)
    return told


@pytest.mark.parametrize("day", DAYS[7:9])
@pytest.mark.parametrize(
    ("name", "segment", "part", "says"),
    [
        ("pop20", "all", "membership", " users (20 %) all get the same list from the candidate: the most popular items. "),
        (
            "seg2-nonUK-pop",
            "country=nonUK",
            "membership",
            " users (9 %), exactly those of country=nonUK, all get the same list from the candidate",
        ),
        ("trunc5", "all", "length", " users (100 %) get shorter lists from the candidate: 5 items instead of 10. "),
        ("missing5", "all", None, " users (5 %) got no list from the candidate (0 % before). "),
        ("stale3", "all", None, " get the same list from the candidate as in the last run, while other lists changed. "),
    ],
)
def test_what_was_done_to_the_lists_comes_first(
    name: str, segment: str, part: str | None, says: str, day: str, replayed: tuple[str, Runs]
) -> None:
    told = explained(replayed[0], name, day)
    assert (told["segment"], told["finding"]["segment"], told["finding"]["arms"]) == (segment, segment, ["candidate"])
    assert says in told["sentence"]
    assert part in {None, told["causes"][0]["part"]}
    if name in {"pop20", "seg2-nonUK-pop"}:
        popular, _ = Counter(map(tuple, lists_of("pop20", day).values())).most_common(1)[0]
        assert {int(item["item"]) for item in told["gained"][:3]} <= set(popular)


@pytest.mark.parametrize("day", DAYS[1:9:2])
def test_nothing_is_blamed_for_a_healthy_candidate(day: str, replayed: tuple[str, Runs]) -> None:
    told = explained(replayed[0], "ok-seed", day)
    assert (told["segment"], told["finding"]) == ("all", None)


USERS, ITEMS, LENGTH, HEALTHY_DAYS = 1200, 300, 10, 10
BY_SHOP = "    users: {all: true, segments: [shop]}\n    metrics: [overlap]\n    rules: default\n"
SHOPS = np.repeat(["cached", "fallback", "reversed", "well"], USERS // 4)


def train(rng: np.random.Generator, tastes: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Top lists of one training, whose scores are as uncertain as those of a retrained recommender."""
    scores = tastes @ items.T
    return np.argsort(-(scores + rng.normal(scale=0.25 * scores.std(), size=scores.shape)), axis=1)[:, :LENGTH]


def write_day(folder: Path, arm: str, day: int, lists: np.ndarray) -> None:
    users = pa.array([f"user-{number:04}" for number in range(USERS)])
    table = pa.table({"user_id": users, "items": list(lists.astype(np.int32)), "shop": pa.array(SHOPS)})
    (folder / arm).mkdir(exist_ok=True)
    pq.write_table(table, folder / arm / f"2024-01-{day:02}.parquet")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """Reasons of the alerts on lists of the first bad day, by name and segment; before it there must be none."""
    folder, rng = tmp_path_factory.mktemp("shop"), np.random.default_rng(1)
    tastes, items = rng.normal(size=(USERS, 8)), rng.normal(size=(ITEMS, 8))
    before = np.empty((0, LENGTH))
    for day in range(1, HEALTHY_DAYS + 2):
        baseline, candidate = train(rng, tastes, items), train(rng, tastes, items)
        if day > HEALTHY_DAYS:
            candidate[SHOPS == "cached"] = before[SHOPS == "cached"]
            candidate[np.flatnonzero(SHOPS == "fallback")[:15]] = np.arange(LENGTH)
            candidate[SHOPS == "reversed", :3] = baseline[SHOPS == "reversed", 2::-1]
        elif day == HEALTHY_DAYS - 2:
            candidate = before  # a day without a training
        write_day(folder, "baseline", day, baseline)
        write_day(folder, "candidate", day, candidate)
        before = candidate
    config = write_config(folder, compare("shop", BY_SHOP, candidate=f"{folder}/candidate", baseline=f"{folder}/baseline"))
    run_cli("replay", "--config", str(config), "--from", "2024-01-01", "--to", f"2024-01-{HEALTHY_DAYS + 1}", "--json")
    fired = [each for each in run_cli("alerts", "--config", str(config), "--json") if each["to"] == "firing"]
    assert {each["slot"][:10] for each in fired} == {f"2024-01-{HEALTHY_DAYS + 1}"}, fired
    return {(each["alert"], each["segment"]): each["reason"] for each in fired}


def test_one_list_for_a_hundredth_of_the_users_is_seen_with_their_number(seen: dict[tuple[str, str], str]) -> None:
    assert {segment for alert, segment in seen if alert == "SharedList"} == {"all", "shop=fallback"}
    assert seen["SharedList", "all"].startswith(
        "the candidate gave one and the same list to 15 of 1,200 users (1.25 %), normally"
    )


def test_a_segment_that_a_training_left_behind_is_seen_and_a_day_without_one_is_not(seen: dict[tuple[str, str], str]) -> None:
    assert {segment for alert, segment in seen if alert == "StaleLists"} == {"all", "shop=cached"}
    assert (
        "has not changed since its last run the lists of 300 of 300 users of shop=cached" in seen["StaleLists", "shop=cached"]
    )


def test_first_items_turned_round_are_seen_as_order(seen: dict[tuple[str, str], str]) -> None:
    assert ("TopReversed", "shop=reversed") in seen
    assert not {alert for alert, segment in seen if segment == "shop=well"}
