"""The shortest configuration that loads, texts as settings, and what is asked of rules."""

import re
from pathlib import Path

from monitor.settings.loader import parse_settings
from monitor.settings.translation import to_comparison

HTTP = '{http: {url: "http://%s.internal/{user}"}}'
MINIMAL = f"""comparisons:
  - name: feed
    every: 15m
    baseline: {HTTP % "a"}
    candidate: {HTTP % "b"}
    users: {{file: {{path: users.csv, user: id}}}}
"""

UNPAIRED = """comparisons:
  - name: test
    every: 1d
    unpaired:
      log: {file: {path: log.parquet, user: user, items: items, served: {time: at, within: 1d}}}
      arm: variant
      baseline: a
      candidate: b
      split: {a: 0.5, b: 0.5}
      before: 2024-01-01
"""
RETRAIN = '    noise_floor: {retrain: {http: {url: "http://again.internal/{user}"}}}\n'
WEIGHTS = "item_weights: {file: {path: weights.csv, item: id, weight: sold}}"
RELEVANCE = 'relevance: {file: {path: "{slot:%Y}.csv", user: u, items: i, grades: g}}'
NOTIFICATION = """
receivers:
  - webhook: {url: "http://127.0.0.1:1/x", name: hook}
  - alertmanager: {urls: ["http://127.0.0.1:2", "http://127.0.0.1:3"], name: am}
routes:
  - {match: [severity=critical, "comparison=~f.*"], receivers: [am], continue: true}
  - {receivers: [hook]}
fallbacks: {am: hook}
maintenance:
  - {name: retraining, match: [comparison=feed], cron: "0 2 * * *", timezone: Europe/Berlin, for: 2h}
"""
BASE = Path("/srv/rankwatch")


def load_text(text, **environ):
    return parse_settings(text, name="rankwatch.yaml", base_dir=BASE, environ=environ)


def uncommented(text):
    """The text of an example with its optional lines."""
    return re.sub(r"(?m)^(\s*)#(?=[^\s#])", r"\1", text)


def expected(text):
    """The problems that a bad configuration says it has."""
    return [
        line.removeprefix("# expect ") for line in text.splitlines() if line.startswith("# expect ")
    ]


def load_comparison(text, **environ):
    """The first comparison of a configuration."""
    return load_text(text, **environ).comparisons[0]


def comparison_of(text):
    """The same as the program runs it."""
    return to_comparison(load_comparison(text))
