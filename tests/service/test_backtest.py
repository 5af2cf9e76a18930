"""Stored runs judged again: the same rules give the same transitions, others what they would have given."""

import shutil
from contextlib import closing
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from drift_lists import compare, lists_folder, run_cli, write_config
from monitor.cli.main import app
from monitor.model.alerts import Transition
from monitor.model.rules import Subject
from monitor.model.runs import RunStatus
from monitor.service.analysis.backtest import Backtest, backtest_rules
from monitor.settings.loader import load_settings
from monitor.settings.translation import to_comparison
from monitor.storage import open_store
from servers.chromium import shown_in_browser

pytestmark = pytest.mark.early

NAMES = ("pop20", "trunc5", "broken")
PERIOD = ("--from", "2024-01-01", "--to", "2024-01-14", "--json")

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
KEEPS = {"trunc5": "all", "pop20": "100"}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A candidate whose days fail, are half empty, and lose a segment."""
    days = tmp_path_factory.mktemp("lists") / "broken"
    shutil.copytree(lists_folder() / "pop20", days)
    for day in ("05", "09"):
        (days / f"2024-01-{day}.parquet").unlink()
    for day, share in (("06", 0.3), ("10", 0.4), ("12", 0.0)):
        frame = pd.read_parquet(days / f"2024-01-{day}.parquet")
        frame.iloc[: int(len(frame) * share)].to_parquet(days / f"2024-01-{day}.parquet")
    frame = pd.read_parquet(days / "2024-01-11.parquet")
    frame[frame.country != "nonUK"].to_parquet(days / "2024-01-11.parquet")
    return days


def replay(folder: Path, broken: Path, rules: str = RULES, names: tuple[str, ...] = NAMES) -> Path:
    """A configuration whose runs are stored."""
    candidates = {"broken": str(broken)}
    comparisons = [
        compare(
            name,
            MEASURED.format(keeps=KEEPS.get(name, "none")) + rules,
            candidate=candidates.get(name, name),
        )
        for name in names
    ]
    config = write_config(folder, *comparisons)
    run_cli("replay", "--config", str(config), *PERIOD, code=3)  # some runs fail
    return config


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory, broken: Path) -> Path:
    return replay(tmp_path_factory.mktemp("replayed"), broken)


def judge_again(config: Path, names: tuple[str, ...] = NAMES, **period: datetime) -> dict[str, Backtest]:
    settings = load_settings(config)
    with closing(open_store(settings.database, create=False)) as store:
        found = {options.name: to_comparison(options) for options in settings.comparisons if options.name in names}
        return {name: backtest_rules(found[name], store, **period) for name in found}


def test_the_same_rules_make_the_very_transitions_that_replay_made(replayed: Path) -> None:
    found = judge_again(replayed)

    made = {name: len(each.stored) for name, each in found.items()}
    assert {each.transitions == each.stored for each in found.values()} == {True}
    assert found["broken"].runs == {RunStatus.OK: 9, RunStatus.FAILED: 3, RunStatus.INSUFFICIENT: 2}
    assert min(made.values()) >= 2
    alerts = {each.alert for each in found["broken"].stored}
    assert {"Low", "Missing", "Unpaired", "MeanDrop", "FarUsers"} <= alerts


def test_runs_before_the_period_teach_and_only_changes_within_it_are_told(replayed: Path) -> None:
    whole = judge_again(replayed, names=("pop20",))["pop20"].transitions
    cut = (whole[0].slot + (whole[-1].slot - whole[0].slot) / 2).replace(hour=0)  # a slot, whenever alerts end

    later = judge_again(replayed, ("pop20",), start=cut)["pop20"]
    earlier = judge_again(replayed, ("pop20",), end=cut)["pop20"]
    assert later.transitions == tuple(each for each in whole if each.slot >= cut) == later.stored
    assert earlier.transitions == tuple(each for each in whole if each.slot <= cut) == earlier.stored
    assert (sum(earlier.runs.values()), sum(later.runs.values())) == (cut.day, 15 - cut.day)


def test_other_rules_give_what_a_replay_under_them_gives(replayed: Path, broken: Path, tmp_path: Path) -> None:
    other = """
      - {alert: Low, metric: extended_tau, below: 0.5, segments: [all]}
      - {alert: Tail, metric: overlap, statistic: p10, learned: drop, segments: [all, country=nonUK], min_users: 50}
      - {alert: Short, coverage: short, above: 0.5}
"""
    as_replayed = judge_again(replay(tmp_path, broken, other, ("broken",)))["broken"]
    (tmp_path / "rules.yaml").write_text("rules:" + other)

    before = run_cli("alerts", "--config", str(replayed), "--json")
    told = run_cli("backtest", "--config", str(replayed), "--rules", str(tmp_path / "rules.yaml"), "--json")
    assert run_cli("alerts", "--config", str(replayed), "--json") == before  # nothing is written
    assert [each["comparison"] for each in told] == list(NAMES)
    expected = [shown(change) for change in as_replayed.stored if change.is_announced]
    changes = told[NAMES.index("broken")]["changes"]
    assert [(change["slot"], change["alert"], change["segment"], change["to"]) for change in changes] == expected
    assert {alert for _, alert, _, _ in expected} == {"Low", "Tail"}


def shown(change: Transition) -> tuple[str, str, str, str]:
    return (f"{change.slot:%Y-%m-%dT%H:%M:%SZ}", change.alert, change.segment, change.to_state)


def test_a_statistic_that_was_not_summarized_comes_from_kept_scores_for_all_users_together(
    replayed: Path, tmp_path: Path
) -> None:
    """Lists are kept of a hundred users only, so that segments cannot be made up for, and it is said so."""
    rules = """
rules:
  - {alert: Half, metric: extended_tau, statistic: share_below(0.5), above: 0.5}
  - {alert: HalfEach, metric: extended_tau, statistic: share_below(0.5), above: 0.5, segments: each}
"""
    (tmp_path / "rules.yaml").write_text(rules)
    (told,) = run_cli("backtest", "pop20", "--config", str(replayed), "--rules", str(tmp_path / "rules.yaml"), "--json")

    assert told["rules"]["Half"]["runs_not_judged"] == 0
    assert told["rules"]["HalfEach"]["runs_not_judged"] == 14
    first = next(each for each in told["changes"] if each["alert"] == "Half")
    assert first["slot"] == "2024-01-08T00:00:00Z"
    with closing(open_store(load_settings(replayed).database, create=False)) as store:
        run = next(each for each in store.history.runs(comparison="pop20", limit=20) if f"{each.slot:%d}" == "08")
        values = store.history.run_scores(run.id, ["extended_tau"]).by_metric["extended_tau"]
    assert first["value"] == pytest.approx((values < 0.5).sum() / np.isfinite(values).sum(), abs=1e-12)


def test_kept_lists_make_up_for_segments_and_for_metrics_that_were_not_measured(replayed: Path, tmp_path: Path) -> None:
    """Of `trunc5` the newest run keeps its lists, and the last one before its alert; Jaccard is 0.5 at most."""
    text = replayed.read_text().replace("metrics: [extended_tau, overlap]", "metrics: [extended_tau, overlap, jaccard]")
    rules = """
      - {alert: Half, metric: extended_tau, statistic: share_below(0.5), above: 0.99, segments: each}
      - {alert: Jaccard, metric: jaccard, below: 0.51, segments: [all, country=UK]}
"""
    (tmp_path / "rankwatch.yaml").write_text(text.replace(RULES, rules))
    other = str(tmp_path / "rankwatch.yaml")
    (told,) = run_cli("backtest", "trunc5", "--config", str(replayed), "--rules", other, "--json")

    not_judged = {name: found["runs_not_judged"] for name, found in told["rules"].items() if found["runs_not_judged"]}
    assert not_judged == {"Half": 12, "Jaccard": 12}
    found = {(each["alert"], each["segment"]): each for each in told["changes"]}
    assert set(found) == {("Jaccard", "all"), ("Jaccard", "country=UK")}
    assert {each["slot"] for each in found.values()} == {"2024-01-14T00:00:00Z"}
    (run,) = run_cli("backtest", "pop20", "--config", str(replayed), "--rules", other, "--json")
    assert run["rules"]["Jaccard"]["runs_not_judged"] == 14


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "rules:\n  - {alert: A, metric: overlap, below: 0.3}\n  - {alert: A, metric: overlap, above: 0}\n",
            "rules.yaml:3: rules[1].alert: another rule",
        ),
        ("rules:\n  - alert: A\n    metric: extended_tau\n    bellow: 0.3\n", "rules.yaml:4: rules[0].bellow: unknown key"),
        ("thresholds: []\n", "rules.yaml:1: must hold rules: [...]"),
        ("rules: [", "rules.yaml:1: not valid YAML"),
        ("rules: []\nfalse_alarm_every: soon\n", "rules.yaml:2: false_alarm_every"),
    ],
)
def test_what_is_wrong_with_the_file_is_said_with_its_line(replayed: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rules.yaml").write_text(text)

    done = CliRunner().invoke(app, ["backtest", "--config", str(replayed), "--rules", str(tmp_path / "rules.yaml")])
    assert said in str(done.exception)


def test_a_whole_configuration_serves_as_the_file_and_an_unknown_comparison_is_named(replayed: Path) -> None:
    (told,) = run_cli("backtest", "pop20", "--config", str(replayed), "--rules", str(replayed), "--json")
    assert told["changes"] == told["stored_changes"]

    done = CliRunner().invoke(app, ["backtest", "pop2", "--config", str(replayed), "--rules", str(replayed)])
    assert "no comparison named 'pop2'" in str(done.exception)


def test_the_table_counts_pages_and_the_page_shows_them_every_rule_and_what_it_looks_at(replayed: Path, tmp_path: Path) -> None:
    args = ("backtest", "pop20", "--config", str(replayed), "--rules", str(replayed))
    printed = CliRunner().invoke(app, args)
    done = CliRunner().invoke(app, [*args, "--html", str(tmp_path / "out.html")])
    assert (done.exit_code, done.stdout, done.stderr) == (0, printed.stdout, f"written: {tmp_path / 'out.html'}\n")

    shown, found = shown_in_browser(tmp_path / "out.html"), judge_again(replayed, names=("pop20",))["pop20"]
    assert printed.stdout.startswith("pop20: 14 stored runs judged again (14 ok)")
    assert all(word in printed.stdout for word in ("firing", "pages with these rules"))
    assert printed.stdout.splitlines()[0] in shown["text"]
    assert all(f"{rule.alert}: {rule.subject.statistic}" in shown["text"] for rule in found.comparison.judging.rules)
    means = found.measured[Subject("extended_tau", "mean")]
    assert shown["notes"][: len(means)] == [f"{slot:%Y-%m-%dT%H:%M:%SZ}: {value:.4f}" for slot, value in means.items()]
    fired = {f"{each.alert} would fire for {each.segment}" for each in found.transitions if each.is_start}
    assert {each for each in shown["spans"] if "would" in each} == fired
