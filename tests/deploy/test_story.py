"""Which notifications people get in a story with a real daemon, Prometheus and Alertmanager, and the shipped rules.

Healthy, a fault, healed, a source that is down, the daemon stopped. At the first pace two and a half minutes of the rules pass
in a second, and the comparison runs every two seconds, as it would every five minutes. Each chapter ends when its alerts have
arrived. A machine so busy that Prometheus misses scrapes of the living daemon, runs their deadline, or a chapter its end,
gets a slower pace.
"""

import json
import re
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from clocks import SHIFT_VARIABLE
from deploy import dashboards
from deploy.dashboards import Page
from deploy.shipped import alerts, text_of
from factories import HOUR
from monitor.model.immutable import immutable
from servers.alertmanager import AlertmanagerServer
from servers.daemon import serving, wait_for
from servers.prometheus import Prometheus, running_prometheus
from servers.recommender import running_recommender
from servers.webhook import answer, running_webhook

pytestmark = [pytest.mark.early, pytest.mark.integration, pytest.mark.timeout(3000)]
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"(\bfor: |_wait: |_interval: |\[|\[\w+:|\boffset )(\d+)([smhd])\b")
_SECONDS = re.compile(r"\b(\d+) \* (60|3600|86400)\b")


def quicken(text, by):
    """Divide ``for: 5m``, ``group_wait: 30s``, ``[7d:6h]``, ``offset 7d`` and seconds written ``10 * 60``; nothing else."""
    for _ in range(2):  # both spans of [7d:6h]
        text = _SPAN.sub(
            lambda span: f"{span[1]}{int(span[2]) * _UNITS_S[span[3]] * 1000 // by}ms", text
        )
    return _SECONDS.sub(lambda found: f"{int(found[1]) * int(found[2]) / by:g}", text)


PACES = (150, 50, 15)
USERS = 40
_APART = list(range(900, 910))
_CONFIG = """
database: sqlite:///rankwatch.db
listen: 127.0.0.1:0
comparisons:
  - name: home-feed
    every: {every}s
    k: 10
    baseline: {{http: {{url: "{baseline}", items: "@"}}}}
    candidate: {{http: {{url: "{candidate}", items: "@"}}}}
    users: {{file: {{path: users.csv, user: user_id}}, segments: [country]}}
    metrics: [extended_tau, "rbo(p=0.9)"]
    arm_metrics: [catalogue_coverage]
    noise_floor: {{serve: true}}
    rules:
      - {{alert: SimilarityLow, metric: "rbo(p=0.9)", below: 0.35, for: 2, severity: critical}}
      - {{alert: UsersApart, metric: "rbo(p=0.9)", statistic: share_below(0.3), above: 0.9, for: 1000, severity: info}}
      - {{alert: MeanDrop, metric: "rbo(p=0.9)", learned: drop, for: 1000, severity: info}}
  - name: checkout-test
    every: {every}s
    k: 2
    metrics: ["rbo(p=0.9)"]
    arm_metrics: [catalogue_coverage]
    unpaired:
      log: {{file: {{path: log.jsonl, user: user, items: items, served: {{time: at, within: 1d}}}}}}
      arm: arm
      baseline: a
      candidate: b
      split: {{a: 0.5, b: 0.5}}
      before: "{before}"
      segments: [country]
    rules:
      - {{alert: SelfGapRise, metric: "self_gap(rbo(p=0.9))", learned: drop, for: 1000, severity: info}}
      - {{alert: FarGapRise, metric: "far_gap(rbo(p=0.9))", learned: drop, for: 1000, severity: info}}
receivers:
  - alertmanager: {{urls: ["{alertmanager}"], labels: {{job: rankwatch}}}}
pings:
  - {{url: "{pinged}"}}
"""


class TooFastError(Exception):
    """Prometheus missed scrapes of a daemon that lives, a run of healthy arms failed, or a chapter did not end."""


@dataclass
class Heard:
    """The notifications that each receiver of Alertmanager got, in order, without repetitions."""

    said: Any = field(default_factory=list)
    last: Any = field(default_factory=dict)

    def take(self, request):
        body = request.json()
        for alert in body["alerts"]:
            about, status = (body["receiver"], alert["labels"]["alertname"]), alert["status"]
            if self.last.get(about) != status:
                self.last[about] = status
                self.said.append((*about, status))
        return answer(200)


@immutable
class Story:
    """The results of the story.

    ``chapters``: when each ended, in seconds since 1970; Prometheus still answers for those times.
    """

    prometheus: Prometheus
    heard: Heard
    folder: Path
    pace: int
    chapters: Any = field(default_factory=dict)

    def end(self, chapter, *claims, is_alive=True):
        """Wait until all claims are true.

        The chapter ends then. TooFastError when it lasts too long, or when the rules begin to miss
        a daemon that lives.
        """
        deadline = time.monotonic() + 9000 / self.pace

        def is_over():
            if all(claim() for claim in claims):
                return True
            is_late = time.monotonic() > deadline or (is_alive and self._is_missed())
            if is_late and self.pace > PACES[-1]:
                raise TooFastError
            return False

        wait_for(is_over, f"the end of: {chapter}")
        self.chapters[chapter] = float(self.prometheus.query("time()")[0]["value"][1])

    def _is_missed(self):
        missed = 'ALERTS{alertname="RankwatchDown"}'
        if "healed" not in self.chapters:
            missed += ' or rankwatch_runs_total{status!="ok"} > 0 or rankwatch_alert_state{alert="Stale"} == 2'
        return bool(self.prometheus.query(missed))

    def is_told(self, receiver, alert, status="firing"):
        return lambda: self.heard.last.get((receiver, alert)) == status

    def sees(self, promql):
        return lambda: bool(self.prometheus.query(promql))


def play(story, daemon, candidate):
    """All chapters, one after the other."""
    story.end("healthy", story.sees("rankwatch_runs_total{status='ok'} >= 7"))
    candidate.lists = {f"u{place}": _APART for place in range(USERS)}
    mirrored = story.is_told("nobody", "RankwatchSimilarityAlertFiring")
    burning = story.is_told("nobody", "RankwatchUsersBelowFloorFastBurn")
    story.end("fault", story.is_told("on-call", "SimilarityLow"), mirrored, burning)
    candidate.lists = {}
    healed = story.is_told("on-call", "SimilarityLow", "resolved")
    story.end(
        "healed", healed, story.sees("comparison_metric_floor:rankwatch_users_below:ratio5m == 0")
    )
    candidate.otherwise = "forbidden"
    failing = story.sees('ALERTS{alertname="RankwatchSourceFailing", alertstate="firing"}')
    story.end(
        "source down",
        story.is_told("on-call", "Stale"),
        story.is_told("tickets", "RunFailing"),
        failing,
    )
    daemon.terminate()
    story.end("daemon stopped", story.is_told("on-call", "RankwatchDown"), is_alive=False)


@contextmanager
def told(folder):
    """The story, played to its end; Prometheus runs on."""
    for pace in PACES:
        (at := folder / str(pace)).mkdir()
        with ExitStack() as stack, suppress(TooFastError):
            yield _played(at, pace, stack)
            return


def _played(folder, pace, stack):
    heard = Heard()
    collector, pinged = (stack.enter_context(running_webhook()) for _ in range(2))
    collector.respond = heard.take
    alertmanager = AlertmanagerServer(folder / "alertmanager", config=_routes(collector.url, pace))
    stack.callback(alertmanager.stop)
    baseline, candidate = (stack.enter_context(running_recommender()) for _ in range(2))
    _write(
        folder,
        every=300 // pace,
        baseline=baseline.url,
        candidate=candidate.url,
        alertmanager=alertmanager.url,
        pinged=pinged.url,
    )
    with pytest.MonkeyPatch.context() as patch:
        # Alertmanager ends alerts by the machine's clock.
        patch.delenv(SHIFT_VARIABLE, raising=False)
        daemon = stack.enter_context(serving(folder / "rankwatch.yaml"))
    target, rules = daemon.url.removeprefix("http://"), folder / "rankwatch.rules.yml"
    rules.write_text(quicken(text_of("prometheus/rankwatch.rules.yml"), pace))
    watching = running_prometheus(
        target,
        rules=[rules],
        interval=f"{75_000 // pace}ms",
        alertmanager=alertmanager.url.removeprefix("http://"),
    )
    story = Story(prometheus=stack.enter_context(watching), heard=heard, folder=folder, pace=pace)
    # Prometheus takes seconds to find its targets, as long as it takes RankwatchDown to fire at
    # this pace.
    story.end("found", story.sees("rankwatch_build_info unless on () ALERTS"), is_alive=False)
    alertmanager.start()
    play(story, daemon, candidate)
    return story


def _routes(url, pace):
    """The shipped configuration, quickened, with the collector behind every receiver: that for nobody too."""
    config = yaml.safe_load(quicken(text_of("alertmanager/alertmanager.yml"), pace))
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": url, "send_resolved": True}]
    return str(yaml.safe_dump(config))


def _country(place):
    return "UK" if place % 4 else "DE"


def _write(folder, *, every, **urls):
    users = "".join(f"u{place},{_country(place)}\n" for place in range(USERS))
    (folder / "users.csv").write_text(f"user_id,country\n{users}")
    before = datetime.now(UTC) - 2 * HOUR
    rows = []
    for place in range(USERS):
        user = {"user": f"u{place}", "arm": "ab"[place % 2], "country": _country(place)}
        for at, items in ((before, [place, 1]), (before + HOUR, [1, place])):
            rows.append(json.dumps({**user, "at": str(at), "items": items}))
    (folder / "log.jsonl").write_text("\n".join(rows) + "\n")
    config = _CONFIG.format(every=every, before=before, **urls)
    (folder / "rankwatch.yaml").write_text(config)


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Played once; its Prometheus answers queries about each chapter until the end."""
    with told(tmp_path_factory.mktemp("story")) as played:
        yield played


def test_people_are_notified_of_every_fault_once_and_of_nothing_else(story):
    told: Any = {"on-call": [], "tickets": []}
    for receiver, alert, status in story.heard.said:
        if receiver != "nobody":
            told[receiver].append(f"{alert} {status}")
    faults = ("SimilarityLow firing", "SimilarityLow resolved", "Stale firing")
    assert told == {"on-call": [*faults, "RankwatchDown firing"], "tickets": ["RunFailing firing"]}


def test_no_alert_fires_while_the_daemon_is_healthy(story):
    assert not story.prometheus.query('ALERTS{alertstate="firing"}', at=story.chapters["healthy"])


def test_alerts_of_rankwatch_itself_fire_in_prometheus_and_are_sent_to_nobody(story):
    mirrors = {alert.name for alert in alerts() if alert.notified_by == "rankwatch"}
    seen = story.prometheus.query('ALERTS{alertstate="firing"}', at=story.chapters["fault"])

    assert {alert for who, alert, _ in story.heard.said if who == "nobody"} <= mirrors
    assert {"RankwatchSimilarityAlertFiring", "RankwatchUsersBelowFloorFastBurn"} <= {
        sample["metric"]["alertname"] for sample in seen
    }


def test_a_source_that_is_down_is_one_alert_though_three_rules_see_it(story):
    firing = 'ALERTS{alertname="RankwatchSourceFailing", alertstate="firing", arm="candidate"}'

    assert len(story.prometheus.query(firing, at=story.chapters["source down"])) == 1
    assert "RankwatchSourceFailing" not in {alert for _, alert, _ in story.heard.said}


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_every_query_of_every_panel_gives_data_at_some_time_of_the_story(story, name):
    board = dashboards.read(name)
    many = {each for each, variable in dashboards.variables(board).items() if variable.get("multi")}
    (instance,) = {
        sample["metric"]["instance"]
        for sample in story.prometheus.query("up", at=story.chapters["healthy"])
    }
    values = {**_CHOSEN, "comparison": "home-feed", "instance": [instance]}
    if "comparison" in many:
        values["comparison"] = ["home-feed"]
    if name == "rankwatch-unpaired":
        values["comparison"] = "checkout-test"
    page = Page(values=values, rate_interval=f"{3000 // story.pace}s")

    empty = {
        title
        for title, target in dashboards.promql(board)
        if not any(
            story.prometheus.query(page.promql(target["expr"]), at=at)
            for at in story.chapters.values()
        )
    }

    assert empty <= _LATER.get(name, set())


_LATER = {
    "rankwatch-daemon": {"Time since rows were last deleted"},
    "rankwatch-unpaired": {"Alerts firing"},
}
"""What a daemon has only after some minutes, which a story at a slow pace has. In the A/B test of the story no alert fires."""
_CHOSEN = {
    "job": ["rankwatch"],
    "metric": "rbo(p=0.9)",
    "arm_metric": "catalogue_coverage",
    "segment": ["all", "country=DE"],
    "alert": ["SimilarityLow", "MeanDrop"],
}
