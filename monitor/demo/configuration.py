"""The configuration that the demo's daemon runs on: an ordinary file, commented, to be read and changed afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.demo.place import Place
from monitor.demo.shop import BROKEN_COUNTRY

COMPARISON = "home-feed"
METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
SHOWN = METRICS[1]
"""The metric that rules and sparklines look at."""
EXPECTED = frozenset({("SimilarityLow", f"country={BROKEN_COUNTRY}"), ("ManyUsersApart", "all")})
"""The alerts, each with its segment, that the fault should cause: these and no others."""

_TEXT = """\
# Written by `rankwatch demo`. While the demo runs, its recommenders answer at the addresses below.
database: sqlite:///rankwatch.db          # beside this file
listen: {listen}                    # /metrics, /-/healthy, /-/ready

comparisons:
  - name: {comparison}
    every: {every}                             # a demo's pace; real ones say 15m or 1h
    k: 10

    baseline:                             # EASE
      http:
        url: "{baseline}/api/recommend/{{user}}?n={{k}}"
        items: "@"                        # the answer itself is the list of items, best first
    candidate:                            # item-kNN
      http:
        url: "{candidate}/api/recommend/{{user}}?n={{k}}"
        items: "@"

    users:
      file: {{path: users.csv, user: user_id}}
      segments: [country, activity]       # columns of users.csv
      sample: 300                         # how many are asked in each run

    metrics: [{metrics}]

    rules:
      - alert: SimilarityLow              # one segment is enough: an average over everyone hides it
        metric: {shown}
        statistic: mean
        segments: each
        below: 0.4
        resolve_above: 0.5
        for: 2                            # runs in a row
        min_users: 30
        severity: critical
      - alert: ManyUsersApart             # the share of users whose lists have next to nothing in common
        metric: {shown}
        statistic: share_below(0.3)
        above: 0.1
        resolve_below: 0.05
        for: 2
        min_users: 100
        severity: warning

receivers:
  - webhook: {{url: "{hook}", secret_file: webhook-secret}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where everybody is: host:port of the daemon, URLs of the rest."""

    listen: str
    baseline: str
    candidate: str
    hook: str


def write_configuration(place: Place, addresses: Addresses, *, every: str) -> None:
    """Write the configuration into its place."""
    text = _TEXT.format(
        listen=addresses.listen,
        baseline=addresses.baseline,
        candidate=addresses.candidate,
        hook=addresses.hook,
        comparison=COMPARISON,
        every=every,
        metrics=", ".join(f'"{name}"' if "(" in name else name for name in METRICS),
        shown=SHOWN,
    )
    place.config.write_text(text, encoding="utf-8")
