"""A story that a real daemon, a real Prometheus and a real Alertmanager live through, with the shipped rules and routes.

Healthy, a fault, healed, a source that is down, the daemon stopped. At the first pace two and a half minutes of the rules pass
in a second, and the comparison runs every two seconds, as it would every five minutes. Each chapter ends when its alerts have
arrived. A machine so busy that Prometheus misses scrapes of the living daemon, or runs their deadline, gets a slower pace.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from servers.alertmanager import AlertmanagerServer
from servers.daemon import ServeProcess, serving
from servers.prometheus import Prometheus, running_prometheus
from servers.recommender import Recommender, running_recommender
from servers.webhook import Collector, Reply, Request, answer, serve

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN = rf"(?P<number>\d+)(?P<unit>[{''.join(_UNITS_S)}])"
_PLACES = (
    rf"(?P<before>(?:\bfor|_wait|_interval): ){_SPAN}(?P<after>\s)",
    rf"(?P<before>\[){_SPAN}(?P<after>[\]:])",
    rf"(?P<before>\[\w+:){_SPAN}(?P<after>\])",
    rf"(?P<before>\boffset ){_SPAN}(?P<after>\b)",
)
_SECONDS = re.compile(r"\b(?P<number>\d+) \* (?P<unit>60|3600|86400)\b")


def quicken(text: str, by: int) -> str:
    """Divide ``for: 5m``, ``group_wait: 30s``, ``[7d:6h]``, ``offset 7d`` and seconds written ``10 * 60``; nothing else.

    Spans become whole milliseconds. Numbers in descriptions, names of recorded series and bare numbers stay.
    """
    for place in _PLACES:
        text = re.sub(place, lambda found: _shortened(found, by), text)
    return _SECONDS.sub(lambda found: f"{int(found['number']) * int(found['unit']) / by:g}", text)


def _shortened(found: re.Match[str], by: int) -> str:
    milliseconds = int(found["number"]) * _UNITS_S[found["unit"]] * 1000 // by
    return f"{found['before']}{milliseconds}ms{found['after']}"


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
receivers:
  - alertmanager: {{urls: ["{alertmanager}"], labels: {{job: rankwatch}}}}
pings:
  - {{url: "{pinged}"}}
"""


class TooFastError(Exception):
    """Prometheus missed scrapes of a daemon that lives, or a run of healthy arms failed."""


@dataclass(slots=True)
class Heard:
    """What each receiver of Alertmanager was told, in order: alert and ``firing`` or ``resolved``, repetitions left out."""

    said: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: {"on-call": [], "tickets": [], "nobody": []})

    def take(self, request: Request) -> Reply:
        body = json.loads(request.body)
        for alert in body["alerts"]:
            name, status = alert["labels"]["alertname"], alert["status"]
            if self.last(body["receiver"], name) != status:
                self.said[body["receiver"]].append((name, status))
        return answer(200)

    def last(self, receiver: str, alert: str) -> str | None:
        """What it was told last of the alert."""
        return next((status for name, status in reversed(self.said[receiver]) if name == alert), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What came of it. ``chapters``: when each ended, in seconds since 1970; Prometheus still answers for those times."""

    prometheus: Prometheus
    heard: Heard
    folder: Path
    pace: int
    chapters: dict[str, float] = field(default_factory=dict)

    def end(self, chapter: str, *claims: Callable[[], object], is_alive: bool = True) -> None:
        """Wait until all of it holds; the chapter ends then. TooFastError when the rules begin to miss a daemon that lives."""
        ends_at = time.monotonic() + 9000 / self.pace
        while not all(claim() for claim in claims):
            if is_alive and self.pace > PACES[-1] and self._is_missed():
                raise TooFastError
            assert time.monotonic() < ends_at, f"{chapter} never ended: {self.heard.said}; {self._alerts()}"
            time.sleep(0.1)
        self.chapters[chapter] = float(self.prometheus.query("time()")[0]["value"][1])

    def _is_missed(self) -> bool:
        are_well = "" if "healed" in self.chapters else ' or rankwatch_runs_total{status!="ok"} > 0'
        return bool(self.prometheus.query('ALERTS{alertname="RankwatchDown"}' + are_well))

    def is_told(self, receiver: str, alert: str, status: str = "firing") -> Callable[[], bool]:
        return lambda: self.heard.last(receiver, alert) == status

    def sees(self, promql: str) -> Callable[[], bool]:
        return lambda: bool(self.prometheus.query(promql))

    def _alerts(self) -> list[Any]:
        return [sample["metric"] for sample in self.prometheus.query("ALERTS")]


def play(story: Story, daemon: ServeProcess, candidate: Recommender) -> None:
    """All chapters, one after the other."""
    story.end("healthy", story.sees("rankwatch_runs_total{status='ok'} >= 7"))
    candidate.lists = {f"u{place}": _APART for place in range(USERS)}
    mirrored = story.is_told("nobody", "RankwatchSimilarityAlertFiring")
    burning = story.is_told("nobody", "RankwatchUsersBelowFloorFastBurn")
    story.end("fault", story.is_told("on-call", "SimilarityLow"), mirrored, burning)
    candidate.lists = {}
    healed = story.is_told("on-call", "SimilarityLow", "resolved")
    story.end("healed", healed, story.sees("comparison_metric_floor:rankwatch_users_below:ratio5m == 0"))
    candidate.otherwise = "forbidden"
    failing = story.sees('ALERTS{alertname="RankwatchSourceFailing", alertstate="firing"}')
    story.end("source down", story.is_told("on-call", "Stale"), story.is_told("tickets", "RunFailing"), failing)
    daemon.terminate()
    story.end("daemon stopped", story.is_told("on-call", "RankwatchDown"), is_alive=False)


@contextmanager
def told(deploy: Path, folder: Path) -> Iterator[Story]:
    """The story, played to its end; Prometheus runs on."""
    for pace in PACES:
        (at := folder / str(pace)).mkdir()
        with ExitStack() as stack, suppress(TooFastError):
            yield _played(deploy, at, pace, stack)
            return


def _played(deploy: Path, folder: Path, pace: int, stack: ExitStack) -> Story:
    heard = Heard()
    collector, pinged = _collector(stack), _collector(stack)
    collector.respond = heard.take
    alertmanager = AlertmanagerServer(folder / "alertmanager", config=_routes(deploy, collector.url, pace))
    stack.callback(alertmanager.stop)
    baseline, candidate = (stack.enter_context(running_recommender()) for _ in range(2))
    urls = {"baseline": baseline.url, "candidate": candidate.url, "alertmanager": alertmanager.url, "pinged": pinged.url}
    _write(folder, every=300 // pace, **urls)
    daemon = stack.enter_context(serving(folder / "rankwatch.yaml"))
    target, rules = daemon.url.removeprefix("http://"), folder / "rankwatch.rules.yml"
    rules.write_text(quicken((deploy / "prometheus" / "rankwatch.rules.yml").read_text(), pace))
    watching = running_prometheus(
        target, rules=[rules], interval=f"{75_000 // pace}ms", alertmanager=alertmanager.url.removeprefix("http://")
    )
    story = Story(prometheus=stack.enter_context(watching), heard=heard, folder=folder, pace=pace)
    # Prometheus takes seconds to find its targets, as long as it takes RankwatchDown to fire at this pace.
    story.prometheus.await_query("rankwatch_build_info unless on () ALERTS")
    alertmanager.start()
    play(story, daemon, candidate)
    return story


def _collector(stack: ExitStack) -> Collector:
    running = serve()
    collector = next(running)
    stack.callback(running.close)  # type: ignore[attr-defined]
    return collector


def _routes(deploy: Path, url: str, pace: int) -> str:
    """The shipped configuration, quickened, with the collector behind every receiver: that for nobody too."""
    shipped = (deploy / "alertmanager" / "alertmanager.yml").read_text()
    config = yaml.safe_load(quicken(shipped, pace))
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": url, "send_resolved": True}]
    return str(yaml.safe_dump(config))


def _write(folder: Path, *, every: int, **urls: str) -> None:
    users = "".join(f"u{place},{'UK' if place % 4 else 'DE'}\n" for place in range(USERS))
    (folder / "users.csv").write_text(f"user_id,country\n{users}")
    (folder / "rankwatch.yaml").write_text(_CONFIG.format(every=every, **urls))
