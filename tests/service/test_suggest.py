"""Thresholds and plans from stored runs whose true mean, spread and faults are known."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy

from commands import assert_refused, rankwatch, read_json
from factories import DAY, SLOT, summary
from monitor.model.errors import ConfigError
from monitor.service.analysis.thresholds import suggest_thresholds
from monitor.settings.loader import load_settings
from monitor.settings.translation import to_comparison
from monitor.statistics.reference.thresholds import SAFETY
from storage import worked

CONFIG = """
database: sqlite:///rankwatch.db
comparisons:
  - name: home-feed
    every: 1d
    baseline: {file: {path: a.parquet, user: user_id, items: items}}
    candidate: {file: {path: b.parquet, user: user_id, items: items}}
    users: {all: true, segments: [country]}
    metrics: [extended_tau, kendall_distance]
    rules: [{alert: Low, metric: extended_tau, below: 0.3}]
"""
USERS = 1_000
MEANS = [0.50, 0.54, 0.52, 0.49, 0.55, 0.51, 0.53, 0.52, 0.50, 0.53]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """The configuration in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rankwatch.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def what(config):
    return to_comparison(load_settings(config).comparisons[0])


def measured(mean, **changes):
    values = {"p01": mean - 0.8, "p05": mean - 0.6, "p10": mean - 0.5}
    return summary(
        **{"mean": mean, "n": USERS, "standard_error": 0.0, "statistics": values} | changes
    )


def put(store, what, day, *found, **changes):
    whole = {
        "summaries": found,
        "config_hash": what.config_hash,
        "scores": None,
        "evidence": (),
    } | changes
    worked.run(store, SLOT + day * DAY, **whole)


def fill(store, what, means=None):
    for day, mean in enumerate(MEANS if means is None else means):
        put(store, what, day, measured(mean))


def propose(what, store, **changes):
    (found,) = suggest_thresholds(
        what, store.history, **{"statistics": ["mean"], "interval": DAY, **changes}
    )
    return found


def test_the_threshold_is_students_t_limit_at_the_share_of_the_budget_rounded_away(what, store):
    fill(store, what)
    found = propose(what, store)

    share = 1 / (SAFETY * 90)
    h = len(MEANS)
    limit = np.mean(MEANS) - scipy.stats.t.isf(share, h - 1) * np.std(MEANS, ddof=1) * math.sqrt(
        1 + 1 / h
    )
    assert found.rule.threshold == math.floor(limit * 10_000) / 10_000
    assert found.runs == h
    assert found.reason is None
    assert not found.caught
    assert found.expected == pytest.approx(np.mean(MEANS))
    assert found.usually == pytest.approx(np.mean(MEANS) - limit, abs=1e-6)
    assert found.rule.min_users == USERS // 2


@pytest.mark.parametrize(
    "alarm_day, runs, note",
    [
        (6, 6, None),
        (0, len(MEANS), "learned from all runs, because alerts were active after most of them"),
    ],
)
def test_runs_with_alerts_are_not_learned_unless_hardly_any_run_was_quiet(
    what, store, alarm_day, runs, note
):
    for day, mean in enumerate(MEANS):
        state, change = worked.fired(SLOT + day * DAY)
        begins = {"states": (state,), "transitions": (change,)} if day == alarm_day else {}
        put(store, what, day, measured(mean), **begins)
    found = propose(what, store)
    assert found.runs == runs
    assert found.note == note


def test_without_enough_runs_nothing_is_proposed_and_the_reason_is_named(what, store):
    fill(store, what, MEANS[:4])
    found = propose(what, store)
    assert found.reason == "there are 4 healthy runs, but 5 are needed"
    assert not found.caught
    put(store, what, 4, measured(MEANS[4]))
    unknown = propose(what, store, statistics=["share_below(0.2)"])
    assert (
        unknown.reason
        == "share_below(0.2) is not stored, because runs store it only if a rule uses it"
    )
    with pytest.raises(
        ConfigError, match="no ok run of home-feed is stored for its present configuration"
    ):
        propose(replace(what, config_hash="other"), store)


def test_a_history_that_is_too_short_for_the_rate_names_the_possible_rate(what, store):
    fill(store, what, [0.1, 0.6, -0.2, 0.5, 0.0, 0.4])
    found = propose(what, store)

    assert found.reason.startswith(
        "6 healthy runs are too few for at most one false alert in 90 days. They allow one in "
    )


def test_each_segment_has_its_own_threshold_and_shares_the_budget(what, store):
    for day, mean in enumerate(MEANS):
        parts = [measured(mean / 2, segment=f"country={each}") for each in ("DE", "UK")]
        put(store, what, day, measured(mean), *parts)
    found = suggest_thresholds(
        what, store.history, statistics=["mean"], segments=["each"], interval=DAY
    )

    assert [each.segment for each in found] == ["all", "country=DE", "country=UK"]
    limits = [each.rule.threshold for each in found]
    assert limits[0] > limits[1] == limits[2]
    assert len({each.rule.alert for each in found}) == 3


def test_the_rules_that_are_printed_can_be_backtested(what, store):
    for day, mean in enumerate([*MEANS, 0.1]):
        put(store, what, day, measured(mean), measured(mean, segment='country="Ü, 😀"'))
    suggest = "suggest home-feed --segment each"
    suggested = rankwatch(suggest).stdout
    assert "all together: one false alert in 90 days" in suggested
    assert "ExtendedTauMeanDrop would have fired at 2024-01-18T00:00:00Z" in suggested
    Path("rules.yaml").write_text(rankwatch(f"{suggest} --yaml").stdout)

    (told,) = read_json("backtest --rules rules.yaml")
    proposed = read_json(suggest)
    starts = {each["alert"]: len(each["caught"]) for each in proposed if each["caught"] is not None}
    assert sum(starts.values()) >= 2
    assert starts == {name: told["rules"][name]["starts"] for name in starts}


def plan(options):
    (found,) = read_json(f"plan {options}")
    return found


ERROR = 0.3 / math.sqrt(USERS)


def test_plan_gives_users_runs_or_chance(what, store):
    rng = np.random.default_rng(8)
    for day in range(40):
        mean = 0.5 + 0.01 * rng.normal() + ERROR * rng.normal()
        put(store, what, day, measured(mean, standard_error=ERROR))

    users = plan("home-feed --drop 0.1")["users"]
    chance = plan(f"home-feed --drop 0.1 --users {users} --runs 1")["chance"]
    assert chance == pytest.approx(0.9, abs=0.01)
    assert plan(f"home-feed --drop 0.1 --users {users}")["runs"] == 1
    assert plan("home-feed --share 0.1 --score 0.3")["drop"] == pytest.approx(0.1 * 0.2, rel=0.1)
    obstacle = plan("home-feed --drop 0.005")["reason"]
    assert obstacle.startswith("no number of users is enough: the mean varies by 0.0")


def test_plan_for_a_share_of_users_names_the_first_rule_that_sees_it(config, what, store):
    """The mean wanders too far to show one user in a hundred.

    Hardly anybody's lists are ever far apart.
    """
    rng = np.random.default_rng(8)
    for day in range(30):
        far = {
            "share_below(0)": rng.binomial(USERS, 0.002) / USERS,
            "share_below(-0.5)": 0.0,
            "p05": -0.1,
        }
        mean = 0.5 + 0.01 * rng.normal()
        put(store, what, day, measured(mean, standard_error=ERROR, statistics=far))

    assert plan("home-feed --share 0.01")["reason"].startswith("no number of users is enough")
    rules = "rules: [{alert: Low, metric: extended_tau, below: 0.3}]"
    config.write_text(CONFIG.replace(rules, "rules: default"))
    found = plan("home-feed --share 0.01")
    assert found["alert"] == "UsersBelowQuarter"
    assert found["reason"] is None
    assert found["runs"] == 1
    chance = plan(f"home-feed --share 0.01 --users {found['users']} --runs 1")["chance"]
    assert chance == pytest.approx(0.9, abs=0.01)
    assert rankwatch("plan home-feed --share 0.01").stdout.startswith(
        "seen first by UsersBelowQuarter, share_below(-0.5) of extended_tau (as angles: arcsin of the "
        "root)"
    )


@pytest.mark.usefixtures("store", "config")
def test_plan_works_without_runs_and_names_missing_options():
    assert plan("--drop 0.05 --sd 0.3 --wander 0 --learned 1000")["users"] > 100
    assert "(assuming 60 healthy runs" in rankwatch("plan --drop 0.05 --sd 0.3 --wander 0").stdout
    assert_refused("""
        plan --drop 0.1 | 2 | give --sd (over users) and --wander
        plan --share 0.1 --sd 1 --wander 0 | 2 | give --mean and --score
        plan home-feed --drop 1 | 2 | no ok run of home-feed is stored
    """)
