"""Every faulty folder of real lists through `replay`: splits sum to the whole in every run, what was planted stands first."""

import math
from collections import Counter
from functools import cache
from typing import Any

import pandas as pd
import pytest

from drift_lists import compare, lists_folder, run_cli, write_config

pytestmark = pytest.mark.early

FAULTY = ("pop20", "seg2-nonUK-pop", "stale3", "trunc5", "missing5")
HEALTHY = ("ok-seed", "ok-hyper")
DAYS = range(1, 10)
BAD = (8, 9)
K = 10

REST = """    users: {{all: true, segments: [activity, country]}}
    metrics: [extended_tau, "rbo(p=0.9)"]
    keep_lists: all
    rules:
      - {{alert: MeanDrop, metric: "{metric}", learned: drop, segments: each}}
      - {{alert: FarUsers, metric: "{metric}", statistic: share_below({floor}), learned: drop, segments: each}}
      - {{alert: ListsMissing, coverage: missing, above: 0.02}}
      - {{alert: ListsShort, coverage: short, above: 0.1}}
"""
FLOORS = {"extended_tau": 0, "rbo(p=0.9)": 0.3}
Shown = dict[str, Any]


@pytest.fixture(scope="module", params=sorted(FLOORS))
def replayed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[tuple[str, int], Shown]]:
    """The metric explained, and every run as `show` tells it."""
    metric = request.param
    folder = tmp_path_factory.mktemp("replayed")
    rest = REST.format(metric=metric, floor=FLOORS[metric])
    config, named = write_config(folder, *(compare(name, rest) for name in (*FAULTY, *HEALTHY))), folder / "named.yaml"
    # What reads the database needs no more than the names, and so less time.
    named.write_text(config.read_text().partition("\n  -")[0] + "".join(f"\n  - name: {name}" for name in (*FAULTY, *HEALTHY)))
    run_cli("replay", "--config", str(config), "--from", "2024-01-01", "--to", f"2024-01-{DAYS[-1]:02}", "--json")
    shown = {
        (name, day): run_cli("show", name, "--slot", f"2024-01-{day:02}", "--config", str(named), "--json")[0]
        for name in (*FAULTY, *HEALTHY)
        for day in DAYS
    }
    return metric, shown


Replayed = tuple[str, dict[tuple[str, int], Shown]]


@cache
def candidate(name: str, day: int) -> pd.DataFrame:
    return pd.read_parquet(lists_folder() / name / f"2024-01-{day:02}.parquet")


@cache
def popular(day: int) -> set[str]:
    """The popularity list: the one that most users of pop20 share."""
    lists = Counter(tuple(map(str, items[:K])) for items in candidate("pop20", day)["items"])
    return set(lists.most_common(1)[0][0])


def test_the_split_sums_to_the_whole_on_every_run(replayed: Replayed) -> None:
    """The drop straight from the stored means: of this run, and of what it says it was held against."""
    metric, shown = replayed
    checked = 0
    for found in shown.values():
        told = found["explanation"]
        (mean,) = [row["mean"] for row in found["summaries"] if (row["segment"], row["metric"]) == ("all", metric)]
        assert told["metric"] == metric
        assert 1 - told["now"] == pytest.approx(mean, abs=1e-9)
        if told["before"] is None:
            continue
        drop = told["now"] - told["before"]
        assert math.fsum(cause["amount"] for cause in told["causes"]) == pytest.approx(drop, abs=1e-9)
        for dimension in ("activity", "country"):
            falls = [fall["parts"] for fall in told["falls"] if fall["segment"].startswith(f"{dimension}=")]
            assert math.fsum(amount for parts in falls for amount in parts.values()) == pytest.approx(drop, abs=1e-9)
        checked += 1
    assert checked == (len(FAULTY) + len(HEALTHY)) * (len(DAYS) - 1)


@pytest.mark.parametrize("day", BAD)
def test_the_country_on_popular_items_comes_first(day: int, replayed: Replayed) -> None:
    told = replayed[1]["seg2-nonUK-pop", day]["explanation"]
    assert told["segment"] == told["falls"][0]["segment"] == "country=nonUK"
    assert told["causes"][0]["part"] == "membership"
    assert {item["item"] for item in told["gained"][:3]} <= popular(day)
    assert " users (9 %), mostly in country=nonUK (100 % of its users), all get the same list from the cand" in told["sentence"]


@pytest.mark.parametrize("day", BAD)
def test_every_fifth_user_on_popular_items_is_no_segment_and_its_items_and_lists_come_first(
    day: int, replayed: Replayed
) -> None:
    told = replayed[1]["pop20", day]["explanation"]
    assert (told["segment"], told["causes"][0]["part"]) == ("all", "membership")
    assert {item["item"] for item in told["gained"][:3]} <= popular(day)
    assert told["groups"][0]["change"] in {"mostly_replaced", "replaced"}
    assert any(set(each["candidate"]) == popular(day) for each in told["groups"][0]["examples"])
    assert " users (20 %) all get the same list from the candidate: the most popular items. This explains " in told["sentence"]


@pytest.mark.parametrize("day", BAD)
def test_short_lists_come_first(day: int, replayed: Replayed) -> None:
    metric, shown = replayed
    told = shown["trunc5", day]["explanation"]
    assert told["segment"] == "all"
    if metric == "extended_tau":
        assert told["causes"][0]["part"] == "length"
    else:  # a prefix is as good as the whole list to rbo, or better
        (length,) = [cause["amount"] for cause in told["causes"] if cause["part"] == "length"]
        assert length < 0
    assert "users (100 %) get shorter lists from the candidate: 5 items instead of 10. " in told["sentence"]


@pytest.mark.parametrize("day", BAD)
def test_missing_users_come_first(day: int, replayed: Replayed) -> None:
    told = replayed[1]["missing5", day]["explanation"]
    assert " users (5 %) got no list from the candidate (0 % before). " in told["sentence"]
    assert (told["finding"]["kind"], told["finding"]["segment"]) == ("missing", "all")


@pytest.mark.parametrize("day", [7, *BAD])
def test_a_frozen_model_is_said_to_list_what_it_listed_in_the_last_run(day: int, replayed: Replayed) -> None:
    """Frozen on day 4."""
    told = replayed[1]["stale3", day]["explanation"]
    assert (told["finding"]["kind"], told["finding"]["arms"], told["segment"]) == ("stale", ["candidate"], "all")
    assert "get the same list from the candidate as in the last run" in told["sentence"]


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_blamed_for_a_healthy_candidate(name: str, replayed: Replayed) -> None:
    for day in DAYS[1:]:
        told = replayed[1][name, day]["explanation"]
        assert (told["segment"], told["finding"]) == ("all", None)
