"""Two weeks of real lists, run through the real pipeline into PostgreSQL and, a page an hour, into a real Prometheus.

One comparison is healthy; in the other a fifth of the users get the popularity list from the eighth day on. ``told`` makes it.
"""

import re
import subprocess
from contextlib import contextmanager
from datetime import UTC, datetime

from deploy.dashboards import Page
from drift_lists import lists_folder
from factories import DAY, HOUR
from monitor.export.publisher import PrometheusPublisher
from monitor.model.immutable import immutable
from monitor.service.commands.one_shot import open_one_shot
from servers import require
from servers.prometheus import Prometheus, running_prometheus

BEGIN, END = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 14, tzinfo=UTC)
FAULTY, METRIC = "home-feed", "rbo(p=0.9)"
PAGE = Page(
    values={
        "job": ["rankwatch"],
        "comparison": FAULTY,
        "metric": METRIC,
        "segment": [
            "all",
            "activity=q1",
            "activity=q2",
            "activity=q3",
            "activity=q4",
            "country=UK",
            "country=nonUK",
        ],
        "alert": ["MeanDrop", "FarUsers"],
        "arm_metric": "catalogue_coverage",
        "user": "1",
    },
    since="2024-01-01T00:00:00Z",
    until="2024-01-15T00:00:00Z",
)
_CONFIG = """
database: {url}
listen: 127.0.0.1:0
comparisons:
  - name: home-feed
    every: 1d
    k: 10
    baseline: {{file: {{path: "{lists}/baseline/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}
    candidate: {{file: {{path: "{lists}/pop20/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}
    noise_floor: {{retrain: {{file: {{path: "{lists}/again/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}}}
    users: {{all: true, segments: [activity, country]}}
    metrics: ["rbo(p=0.9)"]
    keep_scores: true
    rules:
      - {{alert: MeanDrop, metric: "rbo(p=0.9)", learned: drop}}
      - {{alert: FarUsers, metric: "rbo(p=0.9)", statistic: share_below(0.3), learned: drop, segments: each}}
  - name: search
    every: 1d
    k: 10
    baseline: {{file: {{path: "{lists}/baseline/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}
    candidate: {{file: {{path: "{lists}/ok-seed/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}
    users: {{all: true}}
    metrics: ["rbo(p=0.9)"]
    keep_scores: true
"""


@immutable
class Fortnight:
    """The two weeks, in both."""

    prometheus: Prometheus
    database_url: str

    def over_time(self, query):
        """Samples of a query by the hour: each with ``metric`` (labels) and ``values``."""
        span = {
            "start": str(BEGIN.timestamp()),
            "end": str((END + 23 * HOUR).timestamp()),
            "step": "1h",
        }
        return self.prometheus.get("query_range", query=PAGE.promql(query), **span)["result"]


def configuration(folder, url):
    """Of both comparisons, over this database."""
    config = folder / "rankwatch.yaml"
    config.write_text(_CONFIG.format(url=url, lists=lists_folder()))
    return config


def _scraped(page, since):
    """The page as it was read in each hour of the day, with the labels that a scrape adds."""
    for name, labels, value in re.findall(
        r"^(rankwatch_\w+)(?:\{(.*)\})? (\S+)$", page, flags=re.MULTILINE
    ):
        told = ",".join(filter(None, ('instance="127.0.0.1:29108",job="rankwatch"', labels)))
        for hour in range(24):
            yield f"{name}{{{told}}} {value} {(since + hour * HOUR).timestamp():.0f}"


def _run(config):
    """Run every slot in order; the lines of all scrapes."""
    publisher = PrometheusPublisher(version="1.2.3")
    with open_one_shot(config, reconciles=False) as service:
        names = tuple(service.wiring.watched)
        publisher.register(names, [], intervals=dict.fromkeys(names, DAY))
        for day in range((END - BEGIN).days + 1):
            slot = BEGIN + day * DAY
            for result in service.replay(service.slots(None, slot, slot), is_announced=True):
                publisher.run_finished(result)
            publisher.publish(service.store.history.latest(names))
            yield from _scraped(publisher.render()[0].decode(), slot)


def _backfill(folder, lines):
    """The blocks of a Prometheus that has read these lines."""
    pages, blocks = folder / "pages", folder / "data"
    pages.write_text("\n".join([*lines, "# EOF", ""]))
    command = [
        require("promtool"),
        "tsdb",
        "create-blocks-from",
        "--max-block-duration=486h",
        "--quiet",
        "openmetrics",
    ]
    subprocess.run([*command, str(pages), str(blocks)], check=True, capture_output=True)
    return blocks


@contextmanager
def told(folder, database_url):
    """Make the two weeks happen."""
    blocks = _backfill(folder, _run(configuration(folder, database_url)))
    options = ("--storage.tsdb.retention.time=100y", "--query.lookback-delta=61m")
    with running_prometheus(data=blocks, options=options) as prometheus:
        yield Fortnight(prometheus=prometheus, database_url=database_url)
