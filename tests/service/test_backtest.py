"""Stored runs judged again: the same rules give the same transitions, others what they would have given."""

import html
import re
import shutil
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from commands import rankwatch, read_json
from drift_lists import arm_folder, compare, write_config
from factories import DAY, pull
from monitor.model.errors import ConfigError, SourceError
from monitor.model.runs import RunStatus
from monitor.service.analysis.backtest import backtest_rules
from monitor.service.runner import Runner, WatchedComparison
from monitor.settings.loader import load_settings, load_with_rules
from monitor.settings.schedule import Every
from monitor.settings.translation import to_comparison
from pipeline.canned import StillClock, arms, users
from storage.worked import store_at

DAYS = 12
USERS = 300
MEASURED = """    users: {{all: true, segments: [activity, country]}}
    metrics: [extended_tau, overlap]
    keep_lists: {keeps}
    false_alarm_every: 30d
    rules:
"""
RULES = """
      - {alert: Low, metric: extended_tau, below: 0.36, resolve_above: 0.45, for: 2, segments: each}
      - {alert: Missing, coverage: missing, above: 0.02, segments: each}
      - {alert: Unpaired, coverage: unpaired, above: 0.3}
      - {alert: MeanDrop, metric: extended_tau, learned: drop, segments: each}
      - {alert: FarUsers, metric: extended_tau, statistic: share_below(0), learned: drop, segments: each}
      - {alert: MeanTrend, metric: extended_tau, learned: trend, segments: [all, country=UK]}
"""


def read(arm, day):
    return pd.read_parquet(arm_folder(arm) / f"2024-01-{day:02}.parquet").iloc[:USERS]


def lists_in(frame):
    return pull(
        {
            user: [int(item) for item in items]
            for user, items in zip(frame.user_id, frame["items"], strict=True)
        }
    )


def broken(day):
    """A faulty candidate whose days also fail, are half empty, and lose a segment."""
    frame = read("pop20", day)
    if day in {5, 9}:
        return SourceError("the lists are gone", permanent=True)
    if day == 11:
        frame = frame[frame.country != "nonUK"]
    share = {6: 0.3, 10: 0.4, 12: 0.0}.get(day, 1.0)
    return lists_in(frame.iloc[: int(len(frame) * share)])


def write(folder, rules=RULES, keeps="none"):
    return write_config(
        folder, compare("shop", MEASURED.format(keeps=keeps) + rules, candidate="pop20")
    )


def replay(config, candidate, days):
    """Store a run a day, of lists that are handed over instead of read."""
    settings = load_settings(config)
    comparison = to_comparison(settings.comparisons[0])
    with store_at(settings.database) as store:
        for day in days:
            baseline = read("baseline", day)
            slot = datetime(2024, 1, day, tzinfo=UTC)
            asked = users(
                *baseline.user_id, activity=list(baseline.activity), country=list(baseline.country)
            )
            opened = arms(lists_in(baseline), candidate(day), asked)
            watched = WatchedComparison(comparison=comparison, sources=opened, schedule=Every(DAY))
            Runner(store=store, clock=StillClock(slot)).run(watched, slot, receivers=())


@pytest.fixture(scope="module")
def replayed(tmp_path_factory, sqlite_template):
    """A configuration whose runs are stored, with the lists of a hundred users."""
    config = write(
        Path(shutil.copy(sqlite_template, tmp_path_factory.mktemp("replayed"))).parent, keeps="100"
    )
    replay(config, broken, range(1, DAYS + 1))
    return config


def backtest(config, rules, folder):
    """What the command prints for these rules."""
    (folder / "rules.yaml").write_text(f"rules:{rules}")
    return backtested(config, folder / "rules.yaml")


def backtested(config, rules):
    (told,) = read_json(f"backtest --config {config} --rules {rules}")
    return told


@cache
def judge_again(config, **period):
    settings = load_settings(config)
    with store_at(settings.database) as store:
        return backtest_rules(to_comparison(settings.comparisons[0]), store, **period)


def test_the_same_rules_give_the_transitions_that_replay_stored(replayed):
    found = judge_again(replayed)
    assert found.transitions == found.stored
    assert found.runs == {RunStatus.OK: 7, RunStatus.FAILED: 3, RunStatus.INSUFFICIENT: 2}
    assert {"Low", "Missing", "Unpaired", "MeanDrop", "FarUsers"} <= {
        each.alert for each in found.stored
    }


def test_rules_learn_from_runs_before_the_period_and_only_changes_in_the_period_are_shown(replayed):
    whole = judge_again(replayed).transitions
    cut = (whole[0].slot + (whole[-1].slot - whole[0].slot) / 2).replace(
        hour=0
    )  # a slot, whenever alerts end

    later = judge_again(replayed, start=cut)
    earlier = judge_again(replayed, end=cut)
    assert later.transitions == tuple(each for each in whole if each.slot >= cut) == later.stored
    assert (
        earlier.transitions == tuple(each for each in whole if each.slot <= cut) == earlier.stored
    )
    assert sum(earlier.runs.values()) == cut.day
    assert sum(later.runs.values()) == DAYS + 1 - cut.day


def test_a_statistic_without_a_summary_comes_from_kept_scores_for_all_users(replayed, tmp_path):
    """Lists are kept of a hundred users only, so that segments cannot be made up for, and it is said so."""
    rules = """
  - {alert: Half, metric: extended_tau, statistic: share_below(0.5), above: 0.5}
  - {alert: HalfEach, metric: extended_tau, statistic: share_below(0.5), above: 0.5, segments: each}
"""
    told = backtest(replayed, rules, tmp_path)
    assert told["rules"]["Half"]["runs_not_judged"] == 0
    assert told["rules"]["HalfEach"]["runs_not_judged"] == 7
    first = next(each for each in told["transitions"] if each["alert"] == "Half")
    assert first["slot"] == "2024-01-08T00:00:00Z"
    assert first["value"] == pytest.approx(160 / 300), "users of that day whose score is below 0.5"


@pytest.mark.slow
@pytest.mark.usefixtures("url")
def test_kept_lists_give_segments_and_metrics_that_were_not_measured(replayed, tmp_path):
    """The newest run keeps its lists, and the last one before its alert; Jaccard is 0.5 at most."""
    config = write(tmp_path, keeps="all")
    replay(config, lambda day: lists_in(read("trunc5", day)), range(7, 11))
    rules = """
      - {alert: Half, metric: extended_tau, statistic: share_below(0.5), above: 0.99, segments: each}
      - {alert: Jaccard, metric: jaccard, below: 0.51, segments: [all, country=UK]}
"""
    text = config.read_text().replace("[extended_tau, overlap]", "[extended_tau, overlap, jaccard]")
    (tmp_path / "other.yaml").write_text(text.replace(RULES, rules))
    told = backtested(config, tmp_path / "other.yaml")

    assert [told["rules"][name]["runs_not_judged"] for name in ("Half", "Jaccard")] == [2, 2]
    assert [(each["alert"], each["segment"], each["slot"]) for each in told["transitions"]] == [
        ("Jaccard", "all", "2024-01-08T00:00:00Z"),
        ("Jaccard", "country=UK", "2024-01-08T00:00:00Z"),
    ]
    few = backtested(replayed, tmp_path / "other.yaml")
    assert few["rules"]["Jaccard"]["runs_not_judged"] == 7


@pytest.mark.slow
def test_errors_in_the_file_of_rules_name_the_line(replayed, tmp_path):
    file = tmp_path / "rules.yaml"
    for text, said in (
        (
            (
                "rules:\n  - {alert: A, metric: overlap, below: 0.3}\n  - {alert: A, metric: "
                "overlap, above: 0}\n"
            ),
            "3: rules[1].alert: another rule",
        ),
        (
            "rules:\n  - alert: A\n    metric: extended_tau\n    bellow: 0.3\n",
            "4: rules[0].bellow: unknown key",
        ),
        ("thresholds: []\n", "1: must have rules: [...]"),
        ("rules: [", "1: not valid YAML"),
        ("rules: []\nfalse_alarm_every: soon\n", "2: false_alarm_every"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=re.escape(f"rules.yaml:{said}")):
            load_with_rules(replayed, file, [])


def test_the_page_shows_what_the_command_prints_and_every_rule(replayed, tmp_path):
    command = f"backtest --config {replayed} --rules {replayed}"
    file = tmp_path / "out.html"
    printed = rankwatch(command)
    done = rankwatch(f"{command} --html {file}")
    assert done.stdout == printed.stdout
    assert done.stderr == f"written: {file}\n"

    page = html.unescape(re.sub("<[^>]*>", "", file.read_text()))
    assert printed.stdout.startswith("shop: 12 stored runs judged again (7 ok")
    assert all(word in printed.stdout for word in ("firing", "alerts with these rules"))
    assert printed.stdout.splitlines()[0] in page
    assert all(
        f"{rule.alert}: {rule.subject.statistic}" in page
        for rule in judge_again(replayed).comparison.judging.rules
    )
