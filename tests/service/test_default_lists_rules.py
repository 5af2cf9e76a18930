"""What the default rules see in lists of a generated shop: each fault in its segment on its first day, nothing elsewhere."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drift_lists import run_cli

USERS, ITEMS, K, HEALTHY = 1200, 300, 10, 10
CONFIG = """
database: sqlite:///{folder}/rankwatch.db
comparisons:
  - name: shop
    every: 1d
    k: 10
    baseline: {{file: {{path: "{folder}/baseline/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}
    candidate: {{file: {{path: "{folder}/candidate/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}
    users: {{all: true, segments: [shop]}}
    metrics: [overlap]
    default_rules: true
"""
SHOPS = np.repeat(["cached", "fallback", "reversed", "well"], USERS // 4)


def train(rng: np.random.Generator, tastes: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Top lists of one training, whose scores are as uncertain as those of a retrained recommender."""
    scores = tastes @ items.T
    return np.argsort(-(scores + rng.normal(scale=0.25 * scores.std(), size=scores.shape)), axis=1)[:, :K]


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
    before = np.empty((0, K))
    for day in range(1, HEALTHY + 2):
        baseline, candidate = train(rng, tastes, items), train(rng, tastes, items)
        if day > HEALTHY:
            candidate[SHOPS == "cached"] = before[SHOPS == "cached"]
            candidate[np.flatnonzero(SHOPS == "fallback")[:15]] = np.arange(K)
            candidate[SHOPS == "reversed", :3] = baseline[SHOPS == "reversed", 2::-1]
        elif day == HEALTHY - 2:
            candidate = before  # a day without a training
        write_day(folder, "baseline", day, baseline)
        write_day(folder, "candidate", day, candidate)
        before = candidate
    config = folder / "rankwatch.yaml"
    config.write_text(CONFIG.format(folder=folder))
    run_cli("replay", "--config", str(config), "--from", "2024-01-01", "--to", f"2024-01-{HEALTHY + 1}", "--json")
    fired = [each for each in run_cli("alerts", "--config", str(config), "--json") if each["to"] == "firing"]
    assert {each["slot"][:10] for each in fired} == {f"2024-01-{HEALTHY + 1}"}, fired
    return {(each["alert"], each["segment"]): each["reason"] for each in fired}


def test_one_list_for_a_hundredth_of_the_users_is_seen_with_their_number(seen: dict[tuple[str, str], str]) -> None:
    assert {segment for alert, segment in seen if alert == "SharedList"} == {"all", "shop=fallback"}
    assert seen["SharedList", "all"].startswith("the candidate gave one and the same list to 15 of 1,200 users (1.25 %), above")


def test_a_segment_that_a_training_left_behind_is_seen_and_a_day_without_one_is_not(seen: dict[tuple[str, str], str]) -> None:
    assert {segment for alert, segment in seen if alert == "StaleLists"} == {"all", "shop=cached"}
    assert (
        "has not changed since its last run the lists of 300 of 300 users of shop=cached" in seen["StaleLists", "shop=cached"]
    )


def test_first_items_turned_round_are_seen_as_order(seen: dict[tuple[str, str], str]) -> None:
    assert ("TopReversed", "shop=reversed") in seen
    assert not {alert for alert, segment in seen if segment == "shop=well"}
