from datetime import timedelta
from pathlib import Path

import pytest

from factories import DAY, SLOT
from monitor.cli.parameters import parse_instant
from monitor.metrics import parse
from monitor.model.comparison import Keep, SampleSize
from monitor.model.rules import Direction, Learning, Severity
from monitor.settings.configuration import RetentionOptions
from monitor.settings.loader import parse_settings
from monitor.settings.schedule import Cron, Every
from monitor.settings.translation import config_hash, to_schedule
from settings.minimal import MINIMAL, comparison_of, limit_of, load_comparison, rules_on_drift

RULES = """    rules:
      - {alert: Low, metric: rbo, below: 0.6, resolve_above: 0.65, for: 2, labels: {team: 7}, segments: each,
         min_users: 50, severity: critical, resolve_after: 3}
      - {alert: Far, metric: overlap, statistic: share_below(0.30), above: 0.2, segments: [all]}
"""


def test_rules_on_coverage_speak_of_the_candidate_unless_told() -> None:
    text = f"""{MINIMAL}    rules:
      - {{alert: A, coverage: missing, above: 0.02, resolve_below: 0.01}}
      - {{alert: B, coverage: failed(baseline), above: 0}}
      - {{alert: C, coverage: unpaired, above: 0.5}}
"""
    rules = rules_on_drift(text)

    assert [(*rule.subject, *limit_of(rule)) for rule in rules] == [
        ("coverage", "missing(candidate)", Direction.ABOVE, 0.02, 0.01),
        ("coverage", "failed(baseline)", Direction.ABOVE, 0.0, 0.0),
        ("coverage", "unpaired", Direction.ABOVE, 0.5, 0.5),
    ]


def test_rules_that_learn_watch_the_side_on_which_lists_drift_apart() -> None:
    text = f"""{MINIMAL}    metrics: [extended_tau, footrule_normalized]
    false_alarm_every: 30d
    rules:
      - {{alert: A, metric: extended_tau, learned: drop}}
      - {{alert: B, metric: extended_tau, statistic: share_below(0), learned: trend}}
      - {{alert: C, metric: footrule_normalized, statistic: p95, learned: drop}}
"""
    found = comparison_of(text)

    assert [limit_of(rule) for rule in rules_on_drift(text)] == [
        (Direction.BELOW, -1.0, Learning.DROP),
        (Direction.ABOVE, 1.0, Learning.TREND),
        (Direction.ABOVE, 1.0, Learning.DROP),
    ]
    assert found.judging.runs_a_false_page == 30 * 24 * 4  # every 15 minutes


def test_holidays_are_whole_days_of_the_time_zone() -> None:
    text = f"{MINIMAL}    timezone: Europe/Berlin\n    holidays: [2026-03-28..2026-03-29, 2026-12-31]\n"
    judging = comparison_of(text).judging

    days = [("2026-03-27T23:00", "2026-03-29T22:00"), ("2026-12-30T23:00", "2026-12-31T23:00")]
    assert judging.holidays == tuple((parse_instant(start), parse_instant(end)) for start, end in days)
    assert [judging.is_holiday(parse_instant(f"2026-12-{day}:59")) for day in ("30T22", "30T23", "31T22", "31T23")] == [
        *(False, True, True, False)
    ]


def test_rules_say_side_threshold_and_recovery() -> None:
    low, far = rules_on_drift(MINIMAL + RULES)
    assert (*low.subject, *limit_of(low)) == ("rbo(p=0.9)", "mean", Direction.BELOW, 0.6, 0.65)
    assert (low.for_runs, low.labels) == (2, {"team": "7"})
    assert (low.segments, low.min_users, low.severity, low.resolve_after) == ("each", 50, Severity.CRITICAL, 3)
    assert (far.subject.statistic, *limit_of(far)) == ("share_below(0.3)", Direction.ABOVE, 0.2, 0.2)
    assert (far.segments, far.min_users, far.for_runs) == (("all",), 30, 1)


def test_a_threshold_of_zero_is_one() -> None:
    rules = "    rules: [{alert: A, metric: extended_tau, below: 0}, {alert: B, metric: overlap, above: 0}]\n"
    assert [rule.threshold for rule in rules_on_drift(MINIMAL + rules)] == [0.0, 0.0]


def test_metrics_are_spelt_as_they_print() -> None:
    metrics = comparison_of(MINIMAL + "    metrics: [ rbo, 'rbo( p=0.80 )@5', overlap ]\n").measuring.metrics
    assert metrics == ("rbo(p=0.9)", "rbo(p=0.8)@5", "overlap")
    assert all(str(parse(metric)) == metric for metric in metrics)


@pytest.mark.parametrize(
    ("sample", "size"),
    [("", None), ("500", SampleSize(fixed=500)), ("{rotating: 300}", SampleSize(rotating=300)),
     ("{fixed: 100, rotating: 200}", SampleSize(fixed=100, rotating=200))],
)  # fmt: skip
def test_a_sample_is_fixed_unless_it_says_otherwise(sample: str, size: SampleSize | None) -> None:
    text = MINIMAL.replace("user: id}}", f"user: id}}, sample: {sample}}}" if sample else "user: id}}")
    assert comparison_of(text).measuring.sample == size


@pytest.mark.parametrize(
    ("schedule", "more", "deadline"),
    [("every: 15m", "", timedelta(minutes=10)), ("every: 1m", "", timedelta(seconds=48)),
     ("every: 2s", "", timedelta(seconds=1.6)),
     ("every: 1d", "", timedelta(minutes=10)), ("cron: '*/5 * * * *'", "", timedelta(minutes=4)),
     ("every: 1h", "    deadline: 30m\n", timedelta(minutes=30))],
)  # fmt: skip
def test_the_deadline_is_ten_minutes_or_four_fifths_of_a_short_interval(schedule: str, more: str, deadline: timedelta) -> None:
    assert comparison_of(MINIMAL.replace("every: 15m", schedule) + more).measuring.deadline == deadline


def test_the_schedule_is_that_of_every_or_of_cron_in_its_zone() -> None:
    assert to_schedule(load_comparison(MINIMAL)) == Every(timedelta(minutes=15))
    text = MINIMAL.replace("every: 15m", "cron: '0 6 * * mon'\n    timezone: Europe/Berlin")
    assert to_schedule(load_comparison(text)) == Cron.parse("0 6 * * mon", "Europe/Berlin")


WEIGHTS = "item_weights: {file: {path: weights.csv, item: id, weight: sold}}"
RELEVANCE = 'relevance: {file: {path: "{slot:%Y}.csv", user: u, items: i, grades: g}}'
CHANGES = {
    "k": ("every: 15m", "every: 15m\n    k: 11"),
    "metrics": ("every: 15m", "every: 15m\n    metrics: [rbo]"),
    "seed": ("every: 15m", "every: 15m\n    seed: 1"),
    "reference": ("every: 15m", "every: 15m\n    reference: since release 42"),
    "baseline": ("a.internal", "c.internal"),
    "path of the candidate": ("b.internal/", "b.internal/v2/"),
    "expression": ('b.internal/{user}"', 'b.internal/{user}", items: recs'),
    "users": ("users.csv", "others.csv"),
    "segments": ("user: id}}", "user: id}, segments: [country]}"),
    "sample": ("user: id}}", "user: id}, sample: 5000}"),
    "scores": ('b.internal/{user}"', 'b.internal/{user}", scores: scores'),
    "item weights": ("every: 15m", f"every: 15m\n    {WEIGHTS}"),
    "relevance": ("every: 15m", f"every: 15m\n    {RELEVANCE}"),
    "size of the catalogue": ("every: 15m", "every: 15m\n    catalogue_size: 5000"),
}
SAME = {
    "rules": ("every: 15m", "every: 15m\n    rules: [{alert: A, metric: rbo, below: 0.5}]"),
    "schedule": ("every: 15m", "every: 5m"),
    "description and storage": ("every: 15m", "every: 15m\n    description: x\n    keep_scores: no\n    evidence_users: 3"),
    "spelling and order of metrics": ("every: 15m", "every: 15m\n    metrics: [overlap, rbo, extended_tau]"),
    "how lists are fetched": ('b.internal/{user}"', 'b.internal/{user}", timeout: 9s, retries: 0, concurrency: 3'),
    "credentials": ("//a.internal", "//me:s3cret@a.internal"),
    "arm metrics and kept lists": ("every: 15m", "every: 15m\n    arm_metrics: [novelty]\n    keep_lists: true"),
    "how long relevance is waited for": (RELEVANCE, RELEVANCE.removesuffix("}") + ", within: 1d}"),
    "when relevance is asked for": (RELEVANCE, RELEVANCE.removesuffix("}") + ", after: 1d}"),
    "how much of the weights is read at most": (WEIGHTS, WEIGHTS.replace("sold}", "sold, max_bytes: 2000000}")),
}


@pytest.mark.parametrize("name", CHANGES | SAME)
def test_the_hash_follows_what_a_score_means_and_not_judging_waiting_or_fetching(name: str) -> None:
    text = MINIMAL if name in CHANGES else f"{MINIMAL}    {WEIGHTS}\n    {RELEVANCE}\n"
    changed = text.replace(*(CHANGES | SAME)[name])
    assert changed != text
    before, after = (load_comparison(each) for each in (text, changed))
    assert (config_hash(before) == config_hash(after)) is (name in SAME)


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (("/etc/rw", "/data/v1", "/data/v2", "/db"), True),
        (("/srv/rw", "/data/v1", "/data/v2", "/db"), True),
        (("/etc/rw", "/mnt/big disk/v1", "/mnt/big disk/v2", "/elsewhere/db"), True),
        (("/etc/rw", "/data/v1", "/data/v3", "/db"), False),
        (("/etc/rw", "/data/v2", "/data/v1", "/db"), False),
    ],
)
def test_the_hash_names_what_is_measured_and_not_where_files_lie(other: tuple[str, ...], *, is_same: bool) -> None:
    def hash_of(base: str, baseline: str, candidate: str, database: str) -> str:
        lists = "user: u, items: i"
        text = f"""
database: sqlite:///rankwatch.db
comparisons:
  - name: feed
    every: 1d
    baseline: {{file: {{path: "{baseline}/{{slot:%Y}}/lists.parquet", {lists}}}}}
    candidate: {{file: {{path: "{candidate}/{{slot:%Y}}/lists.parquet", {lists}}}}}
    users: {{file: {{path: users.csv, user: u}}}}
    item_weights: {{sql: {{url: "sqlite:///{database}/weights.db", table: weights, item: i, weight: w}}}}
"""
        return config_hash(parse_settings(text, name="rankwatch.yaml", base_dir=Path(base), environ={}).comparisons[0])

    assert (hash_of("/etc/rw", "/data/v1", "/data/v2", "/db") == hash_of(*other)) is is_same


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        (RELEVANCE, Keep.ALL),
        ("arm_metrics: [novelty]", Keep.ALL),
        ("arm_metrics: [exposure_gini, self_churn]", Keep.ALL),
        ("arm_metrics: []", Keep.NONE),
        ("keep_lists: true", Keep.ALL),
        ("keep_lists: false", Keep.NONE),
        ("keep_lists: 200", 200),
        (WEIGHTS, Keep.NONE),
    ],
)
def test_lists_are_kept_where_something_will_need_them(more: str, *, kept: Keep | int) -> None:
    assert comparison_of(f"{MINIMAL}    {more}\n").measuring.keep_lists == kept


@pytest.mark.parametrize(
    ("more", "within", "after"),
    [("", 7, 0), (", within: 36h", 1.5, 0), (", after: 2d", 7, 2), (", within: 5d, after: 2d", 5, 2)],
)
def test_relevance_is_asked_for_at_once_and_waited_for_a_week_or_as_told(more: str, within: float, after: float) -> None:
    found = comparison_of(f"{MINIMAL}    {RELEVANCE.removesuffix('}')}{more}}}\n").measuring
    assert (found.relevance_within, found.relevance_after) == (timedelta(days=within), timedelta(days=after))


def test_lists_go_with_the_scores_and_segments_with_the_run_unless_told_otherwise() -> None:
    found = RetentionOptions.model_validate({"scores": "7d", "runs": "100d"}).cutoffs(SLOT)
    assert (found.scores, found.lists, found.summaries) == (SLOT - 7 * DAY, SLOT - 7 * DAY, SLOT - 100 * DAY)
    assert found.daily == SLOT - 1825 * DAY

    told = RetentionOptions.model_validate({"lists": "1d", "summaries": "30d"}).cutoffs(SLOT)
    assert (told.lists, told.summaries) == (SLOT - DAY, SLOT - 30 * DAY)
