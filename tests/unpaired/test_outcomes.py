"""Outcomes of users, such as clicks: the difference of the arms, its interval, and the logs they are in."""

import math
import re
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
import sqlalchemy as sa
from numpy.random import default_rng

from bench.outcomes import WORLDS, look
from commands import assert_refused, rankwatch, read_json
from factories import DAY, HOUR
from monitor.model.errors import SourceError
from monitor.model.rankings import Arm
from monitor.sources import open_outcomes
from monitor.statistics.sequential.gate import ScoreCounts, bound_mean
from monitor.statistics.unpaired.outcomes import (
    ALPHA,
    half_width,
    measure_moments_of_arm,
    relative_difference,
)
from servers.lists import write_jsonl
from sources.tables import WRITERS, database, in_csv, jsonl
from tables import parsed
from unpaired import world
from unpaired.test_sources import KINDS, measured, settings_of
from unpaired.world import BEGINS


def test_the_difference_and_its_interval_are_those_of_a_regression_on_the_arm_and_on_before():
    """The ends of the interval are the ratios that are ``width`` standard errors away. The outcomes are skewed."""
    rng = default_rng(2)
    taste = rng.lognormal(size=3000)
    is_candidate = np.arange(3000) >= 1000
    now = rng.poisson(3 * taste).astype(float)
    now[is_candidate] *= 0.9
    before = rng.poisson(2 * taste).astype(float)
    design = np.column_stack((np.ones(3000), is_candidate, before))
    _, effect, theta = np.linalg.lstsq(design, now, rcond=None)[0]
    width = 2.5
    arms = [
        measure_moments_of_arm(now[rows], before[rows]) for rows in (~is_candidate, is_candidate)
    ]
    found = relative_difference(arms[0], arms[1], width)

    def errors_away(ratio):
        # The candidate's mean of y - theta x, minus the ratio times the baseline's mean of y, plus theta x.
        candidate = (now - theta * before)[1000:]
        baseline = (ratio * now - theta * before)[:1000]
        error = math.sqrt(candidate.var(ddof=1) / 2000 + baseline.var(ddof=1) / 1000)
        return (candidate.mean() - baseline.mean()) / error

    ends = [
        scipy.optimize.brentq(lambda r, side=side: errors_away(r) - side * width, 0.2, 4) - 1
        for side in (1, -1)
    ]
    assert [found.low, found.high] == pytest.approx(ends)
    assert found.value == pytest.approx(effect / now[:1000].mean())
    assert found.low < found.value < found.high


def test_a_difference_without_a_clear_mean_has_no_interval():
    for baseline, candidate, value, is_bounded in [
        ([2.0], [1.0], -0.5, True),  # constant
        ([2.0, 3.0], [0.0], -1.0, True),  # all outcomes are lost
        ([0.0], [1.0, 0.0], math.nan, False),  # nothing in the baseline
        ([-2.0, -1.0], [1.0], math.nan, False),
        ([1e-300], [1.0], math.nan, False),  # the square of the mean is 0
        ([5.0, -4.0, 0.0], [1.0], 2.0, False),  # the baseline's mean is not clearly above 0
        ([2.0, 3.0], [-5.0], -3.0, True),
        ([1.0], [0.0] * 199 + [200.0], 0.0, False),  # one user has all outcomes of the candidate
    ]:
        one, other = (
            measure_moments_of_arm(np.resize(arm, 600), np.zeros(600))
            for arm in (baseline, candidate)
        )
        found = relative_difference(one, other, 3.0)
        assert found.value == pytest.approx(value, nan_ok=True)
        assert math.isfinite(found.low) is math.isfinite(found.high) is is_bounded


def test_a_few_users_have_no_interval():
    for users, is_bounded in [(0, False), (1, False), (99, False), (101, True)]:
        arm = measure_moments_of_arm(np.ones(users), np.zeros(users))
        found = relative_difference(arm, arm, 3.0)
        assert math.isfinite(found.low) is is_bounded


def test_the_width_is_that_of_the_normal_mixture():
    """The mixture of exp(g S - g^2 V / 2) over normal g is 1 / alpha at the boundary."""
    for clock in (1e3, 1e4, 1e6):
        scale = 1e-4 * (-2 * math.log(ALPHA) + math.log(-2 * math.log(ALPHA)) + 1)
        spread = math.sqrt(scale * clock)
        width = half_width(int(clock / 10), 10.0)
        grid = np.linspace(-12, 12, 200_001)
        mixed = scipy.stats.norm.pdf(grid) * np.exp(
            spread * grid * width - (spread * grid) ** 2 / 2
        )
        assert np.trapezoid(mixed, grid) == pytest.approx(1 / ALPHA, rel=1e-3)
    assert half_width(100, 0.0) == math.inf


@pytest.mark.parametrize("name", WORLDS)
def test_the_interval_has_the_truth_in_all_60_looks_in_95_of_100_tests(name):
    rng = default_rng(3)
    lacks = sum(look(rng, name, 400)[0] for _ in range(40))
    # With 5 %, more than 6 of 40 tests have a chance of 1 in 300.
    assert lacks <= 6


SLOT = BEGINS + 3 * DAY


def outcome_rows():
    """User u0 has no outcome, u1 a null, u2 several rows, u3 a negative number, and u4 rows in all periods."""
    rows: Any = [("u0", HOUR, 0), ("u1", HOUR, None)]
    rows += [("u1", 2 * HOUR, 2.5), ("u3", HOUR, -4)]
    rows += [("u2", number * HOUR, 1) for number in range(1, 11)]
    rows += [("u4", -100 * DAY, 1000), ("u4", -DAY, 3), ("u4", timedelta(0), 4), ("u4", HOUR, 5)]
    rows += [("u4", 3 * DAY, 6), ("u4", 3 * DAY + HOUR, 1000), (None, HOUR, 7)]
    return [
        {
            "user": user,
            "at": (BEGINS + after).isoformat(),
            "variant": "ab"[place % 2],
            "clicks": clicks,
        }
        for place, (user, after, clicks) in enumerate(rows)
    ]


def read_outcomes(source, slot=SLOT, **changes):
    """The sums since the test began and those before the test, as a dictionary for each of them."""
    ((kind, place),) = source.items()
    log = {kind: {**place, "max_unreadable": 0.1, **changes}}
    options = settings_of(log, outcomes=["clicks"]).comparisons[0].unpaired
    logs = (options.served_since, options.outcomes_before)
    read = (open_outcomes(log).sums(slot, ("clicks",)) for log in logs)
    return [each.sums["clicks"].to_dict() for each in read]


NOW = {"u0": 0, "u1": 2.5, "u2": 10, "u3": -4, "u4": 11}
BEFORE = {"u4": 7}


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_are_added_up_for_each_user_and_period(tmp_path, kind):
    source = WRITERS[kind](outcome_rows(), tmp_path)
    assert read_outcomes(source) == [NOW, BEFORE]
    assert not read_outcomes(source, slot=BEGINS - 200 * DAY)[0]


@pytest.mark.slow
def test_outcomes_are_added_up_in_postgresql(postgres_url):
    types = {"at": sa.TIMESTAMP(timezone=True), "clicks": sa.Double()}
    source = database(outcome_rows(), postgres_url, types)
    assert read_outcomes(source) == [NOW, BEFORE]


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("value", ["many", "1e400", "1_0"])
def test_an_outcome_that_is_no_number_is_refused_with_column_and_log(tmp_path, kind, value):
    rows = [row | {"clicks": value} for row in outcome_rows()]
    faults = rf"17 of 17 rows cannot be read .*such as ({value!r}|inf)\): it must hold numbers"
    with pytest.raises(SourceError) as refused:
        read_outcomes(WRITERS[kind](rows, tmp_path))
    assert re.match(f"column 'clicks' of .*table.*{faults}", refused.value.shown)


@pytest.mark.parametrize("kind, form", [("jsonl", bool), ("csv", bool), ("sqlite", "{}".format)])
def test_yes_and_no_are_1_and_0(tmp_path, kind, form):
    rows = [row | {"clicks": form(bool(row["clicks"]))} for row in outcome_rows()]
    assert read_outcomes(WRITERS[kind](rows, tmp_path))[0]["u2"] == 10


CLICKS = """
["u0", "a", 4]
["u1", "a", 2]
["u2", "b", 3]
["u3", "b", 100]
["u4", "b", null]
["u3", "a", false]
["never-served", "b", false]
"""
"""Users, their arms, and their clicks in the test. False is an assignment without a row in the log."""


def test_assigned_users_without_a_row_have_0_and_users_that_switched_are_left_out(tmp_path):
    rows, assigned_rows = [], []
    for user, arm, count in parsed(CLICKS):
        row = {"user": user, "variant": arm, "country": "UK"}
        assigned_rows.append({**row, "at": (BEGINS + HOUR).isoformat()})
        row |= {"request": "1", "items": ["x"]}
        if count is not False:
            rows.append({**row, "at": BEGINS.isoformat(), "clicks": 1})
            rows.append({**row, "at": (SLOT - DAY / 2).isoformat(), "clicks": count})
    users = in_csv(assigned_rows, tmp_path)["file"] | {"user": "user", "served": {"time": "at"}}

    found = measured(jsonl(rows, tmp_path), assignments={"file": users}, outcomes=["clicks"])

    (gap,) = found.unpaired.outcomes
    assert gap.users == 5
    assert gap.means == {Arm.BASELINE: 3.0, Arm.CANDIDATE: 1.0}
    # All have the outcome 1 before, but who was never served has 0. So theta is that of b: 1.5.
    assert gap.difference == pytest.approx((1.0 - 1.5 * (2 / 3 - 1)) / 3 - 1)


LOG = Path("log.jsonl")


def write_test_log(effect=1.0, users=400, **more):
    """A test of users with a request a day. The candidate's clicks are multiplied by ``effect``."""
    rng = default_rng(5)
    rows = []
    for day, number in product(range(-2, 3), range(users)):
        arm = "ab"[number % 2] if day >= 0 else "a"
        rate = (1.5 + 3 * number % 21) * (effect if arm == "b" else 1.0)
        row = {
            "user": f"u{number:03}",
            "variant": arm,
            "at": (BEGINS + day * DAY + HOUR).isoformat(),
            "country": "UK",
            "items": [f"i{(number + place) % 50}" for place in range(4)],
            "clicks": int(rng.poisson(rate)),
        }
        rows.append(row | more)
    write_jsonl(rows, LOG)
    rules = "[{alert: ClicksFell, outcome: clicks, below: -0.05}]"
    config = world.write_config(Path.cwd(), rules=rules)
    text = config.read_text().replace("log.parquet", "log.jsonl")
    config.write_text(
        text.replace("segments: [country]", "segments: [country]\n      outcomes: [clicks]")
    )


RUN = "run-once checkout-test --slot 2026-11-04"


@pytest.mark.slow
def test_a_rule_alerts_once_the_whole_interval_is_beyond_its_margin():
    write_test_log(effect=0.7)
    rankwatch(RUN)
    assert "ClicksFell  all      firing" in rankwatch("alerts ls checkout-test").stdout
    (run,) = read_json("show checkout-test")
    (found,) = run["unpaired"]["outcomes"]
    assert found["means"]["candidate"] == pytest.approx(0.7 * found["means"]["baseline"], rel=0.1)
    assert found["low"] < -0.3 < found["high"] < -0.05
    means = {each["metric"]: each["mean"] for each in run["summaries"]}
    ends = [means[f"outcome{end}(clicks)"] for end in ("", "_low", "_high")]
    assert ends == [found["difference"], found["low"], found["high"]]
    rankwatch("report checkout-test --output report.html")
    assert "below the baseline." in Path("report.html").read_text()


@pytest.mark.slow
def test_the_same_outcomes_are_no_breach_and_are_shown_without_a_configuration():
    write_test_log()
    rankwatch(RUN)
    assert "ClicksFell" not in rankwatch("alerts ls checkout-test").stdout
    said = "clicks: the arms do not differ clearly."
    compare = "compare --unpaired log.jsonl --arms a,b --before 2026-11-01 --outcome clicks"
    assert said in rankwatch(compare).stdout


@pytest.mark.slow
def test_outcomes_that_cannot_be_read_are_named_and_do_not_fail_the_run():
    write_test_log(users=20, clicks="many", views=1)
    config = Path("rankwatch.yaml")
    text = config.read_text()
    config.write_text(text.replace("[clicks]", "[clicks, views]"))
    rankwatch(RUN)
    (run,) = read_json("show checkout-test")
    assert run["status"] == "ok"
    assert [each["column"] for each in run["unpaired"]["outcomes"]] == ["views"]
    assert "outcomes: column 'clicks' of " in run["reason"]
    text = text.replace("[clicks]", "[click]").replace(": clicks", ": click")
    config.write_text(text.replace("within: 1d", "within: 3650d"))
    check = rankwatch("check")
    assert "no column 'click' (did you mean 'clicks'?)" in check.stdout
    assert check.returncode == 3
    assert_refused("""
        compare --unpaired log.jsonl --arms a,b --before 2026-11-01 --outcome click | 2 | no column 'click'
        compare --unpaired log.jsonl --arms a,b --before 2026-11-01 --outcome views --outcome clicks | 2 | column 'clicks' of
    """)


def write_interleaved(clicks):
    """Each user sees two items of each team. ``clicks`` has the number of clicks on each team's items by user."""
    rows = []
    for user, by_team in clicks.items():
        for team, count in zip(("old", "new"), by_team, strict=True):
            rows += [
                {"user": user, "item": f"{team}{n}", "team": team, "click": n < count}
                for n in range(2)
            ]
    write_jsonl([*rows, {"user": "x", "item": "ad", "team": "ads", "click": True}], LOG)


INTERLEAVED = "interleaved log.jsonl --teams old,new"


def test_each_user_has_one_preference_however_often_the_user_clicks():
    clicks = {f"new{n}": (0, 1 + n % 2) for n in range(60)}
    clicks |= {f"old{n}": (1, 0) for n in range(20)}
    write_interleaved(clicks | {"both": (2, 2), "none": (0, 0)})
    (found,) = parsed(rankwatch(f"{INTERLEAVED} --json").stdout)
    assert (found["users"], found["for_baseline"], found["for_candidate"]) == (81, 20, 60)
    assert found["mean"] == pytest.approx(40 / 81)
    # The betting intervals of the gate have the same ends.
    signs = ScoreCounts(np.array([0.0, 0.5, 1.0]), np.array([20.0, 1.0, 60.0]))
    ends = [2 * end - 1 for end in bound_mean(signs, signs, ALPHA / 2)]
    assert [found["low"], found["high"]] == pytest.approx(ends)
    said = "Users prefer the candidate: the mean preference is +0.494 over 81 users"
    assert said in rankwatch(INTERLEAVED).stdout


def test_a_log_of_interleaved_lists_that_cannot_be_read_is_refused():
    write_interleaved({"u": (1, 0)})
    assert_refused(f"""
        interleaved log.jsonl --teams old,newer | 2 | has no row whose team is 'newer': correct --teams
        interleaved log.jsonl --teams old | 2 | must have two values
        {INTERLEAVED} --click item | 2 | column 'item' of
        {INTERLEAVED} --click clicked | 2 | no column 'clicked' (did you mean 'click'?)
    """)
    LOG.write_text(LOG.read_text().replace("true", "-1", 1))
    assert_refused(f"""
        {INTERLEAVED} | 2 | 1 of 4 rows cannot be read (text, such as '-1'): clicks must be true,
    """)


def test_without_a_click_there_is_no_preference():
    write_interleaved({"u": (0, 0)})
    assert "No user has a click" in rankwatch(INTERLEAVED).stdout
