from datetime import timedelta

import pytest
import yaml

from monitor.cli.parameters import parse_instant
from monitor.model.errors import ConfigError
from monitor.model.rules import BaseRule, RuleKind
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.rule_checks import CHECKS
from monitor.settings.rule_options import KINDS, parse_rule
from monitor.settings.schedule import Cron, Every
from monitor.settings.translation import HASHED_KEYS, config_hash, to_schedule
from settings.minimal import MINIMAL, RELEVANCE, WEIGHTS, comparison_of, load_comparison
from tables import cells, rows

RULES = """
metric: rbo, below: 0.6
coverage: missing, above: 0.1
frozen: candidate
outcome: clicks, below: -0.02
"""
"""A rule of each kind."""


def test_each_kind_of_rule_has_options_and_checks_and_an_example():
    examples = [parse_rule(yaml.safe_load(f"{{alert: A, {keys}}}")) for (keys,) in rows(RULES)]
    assert {type(each) for each in examples} == set(KINDS) == set(CHECKS)
    of_drift = {each.to_rule(k=10).kind for each in examples}
    assert of_drift | {RuleKind.CONDITION} == {kind.kind for kind in BaseRule.__subclasses__()}
    for each in examples:
        text = f"{MINIMAL}    rules: [{{alert: A, {each.key}: 1.5, no_such_key: 1}}]\n"
        with pytest.raises(ConfigError, match="unknown key") as caught:
            load_comparison(text)
        assert f"rules[0].{each.key}: " in str(caught.value)


def test_holidays_are_whole_days_of_the_time_zone():
    text = f"{MINIMAL}    timezone: Europe/Berlin\n    holidays: [2026-12-31]\n"
    judging = comparison_of(text).judging
    for day, is_holiday in (("30T22", False), ("30T23", True), ("31T22", True), ("31T23", False)):
        assert judging.is_holiday(parse_instant(f"2026-12-{day}:59")) is is_holiday


def test_the_schedule_is_that_of_every_or_of_cron_in_its_zone():
    assert to_schedule(load_comparison(MINIMAL)) == Every(timedelta(minutes=15))
    text = MINIMAL.replace("every: 15m", "cron: '0 6 * * mon'\n    timezone: Europe/Berlin")
    assert to_schedule(load_comparison(text)) == Cron.parse("0 6 * * mon", "Europe/Berlin")


SQL_WEIGHTS = (
    'item_weights: {sql: {url: "postgresql://me:one@db/recs", table: w, item: i, weight: w}}'
)
ADDED = f"""
k: 11
metrics: [rbo]
seed: 1
reference: since release 42
{WEIGHTS}
{RELEVANCE}
catalogue_size: 5000
"""
"""Lines that change what a score means."""
CHANGED = dict(
    cells("""
a.internal           c.internal
b.internal/          b.internal/v2/
b.internal/{user}"   b.internal/{user}", items: recs
b.internal/{user}"}  b.internal/{user}", scores: scores}
users.csv            others.csv
user: id}}           user: id}, segments: [country]}
id}}                 id}, sample: 5000}
""")
)
SAME_WHEN_ADDED = """
rules: [{alert: A, metric: rbo, below: 0.5}]
description: x
keep_scores: no
evidence_users: 3
metrics: [overlap, rbo, extended_tau]
arm_metrics: [novelty]
keep_lists: true
"""
SAME_WHEN_CHANGED = dict(
    cells("""
every: 15m          every: 5m
b.internal/{user}"  b.internal/{user}", timeout: 9s, retries: 0, concurrency: 3
//a.internal        //me:s3cret@a.internal
grades: g}          grades: g}, within: 2d, after: 1d
weight: sold        weight: sold, max_bytes: 2000000
""")
)
SECRETS = ('b.internal/{user}"', 'b.internal/{user}", token: old, headers: {X-Key: key}')
SECRETS_CHANGED = {"me:one": "me:two", "token: old": "token: new", "X-Key: key": "X-Key: other"}


def variants(text, added, changed):
    """The configuration with each of these lines, and with each of these texts replaced."""
    for line in filter(None, added.splitlines()):
        yield f"{text}    {line}\n"
    for old, new in changed.items():
        assert old in text
        yield text.replace(old, new)


def test_the_hash_follows_what_a_score_means_and_not_judging_waiting_or_fetching():
    whole = f"{MINIMAL}    {WEIGHTS}\n    {RELEVANCE}\n"
    secrets = f"{MINIMAL.replace(*SECRETS)}    {SQL_WEIGHTS}\n"
    for base, added, changed, is_same in (
        (MINIMAL, ADDED, CHANGED, False),
        (whole, SAME_WHEN_ADDED, SAME_WHEN_CHANGED, True),
        (secrets, "", SECRETS_CHANGED, True),
    ):
        before = config_hash(load_comparison(base))
        for text in variants(base, added, changed):
            assert (config_hash(load_comparison(text)) == before) is is_same, text


NOT_IN_HASHED_KEYS = """
arm_metrics candidates conditions cron deadline default_rules description dry_run every
evidence_users false_alarm_every group_for holidays item_titles item_url keep_lists keep_scores
labels max_segment_values metrics min_paired_share name offset only_between pairs rules scores_to
timezone
"""
"""Settings that influence no score, and `metrics`, which `config_hash` adds itself."""


def test_each_setting_of_a_comparison_is_in_the_hash_or_named_here():
    named = [*HASHED_KEYS, *NOT_IN_HASHED_KEYS.split()]
    assert sorted(named) == sorted(ComparisonOptions.model_fields)


OTHER_PLACES = """
/etc/rw /data/v1 /data/v2 /db | same
/srv/rw /data/v1 /data/v2 /db | same
/etc/rw /mnt/disk/v1 /mnt/disk/v2 /elsewhere/db | same
/etc/rw /data/v1 /data/v3 /db | other
/etc/rw /data/v2 /data/v1 /db | other
"""


def test_the_hash_names_what_is_measured_and_not_where_files_lie():
    def hash_of(places):
        base, baseline, candidate, database = places.split()
        return config_hash(
            load_comparison(f"""
comparisons:
  - name: feed
    every: 1d
    baseline: {{file: {{path: "{baseline}/{{slot:%Y}}/lists.parquet", user: u, items: i}}}}
    candidate: {{file: {{path: "{candidate}/{{slot:%Y}}/lists.parquet", user: u, items: i}}}}
    users: {{file: {{path: {base}/users.csv, user: u}}}}
    item_weights: {{sql: {{url: "sqlite:///{database}/weights.db", table: weights, item: i, weight: w}}}}
""")
        )

    first = hash_of("/etc/rw /data/v1 /data/v2 /db")
    for places, which in rows(OTHER_PLACES):
        assert (hash_of(places) == first) is (which == "same"), places
