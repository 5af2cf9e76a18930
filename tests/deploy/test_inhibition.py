"""What the shipped routes hide, in a real Alertmanager that several environments with comparisons of the same name share."""

import json
import urllib.request
from collections.abc import Iterator

import pytest

from deploy.shipped import ROUTES
from servers.alertmanager import AlertmanagerServer
from servers.daemon import wait_for

Labels = dict[str, str]
BLUE, GREEN = {"job": "rankwatch", "namespace": "blue"}, {"job": "rankwatch", "namespace": "green"}
EAST, WEST = {"cluster": "east", **BLUE}, {"cluster": "west", **BLUE}
STALE = {"alertname": "Stale", "severity": "critical", "segment": "all"}
NO_RUN = {"alertname": "RankwatchNoSuccessfulRun", "severity": "critical"}
FAILING = {"alertname": "RankwatchSourceFailing", "severity": "warning", "arm": "candidate"}
NO_LEADER = {"alertname": "RankwatchNoLeader", "severity": "critical"}
DOWN = {"alertname": "RankwatchDown", "severity": "critical"}


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertmanagerServer]:
    server = AlertmanagerServer(tmp_path_factory.mktemp("alertmanager"), config=ROUTES.read_text(encoding="utf-8"))
    server.start()
    yield server
    server.stop()


def hidden(alertmanager: AlertmanagerServer, *alerts: Labels) -> set[int]:
    """Which of them, by their places, are inhibited once it holds them all; the first of them hides the last."""
    body = json.dumps([{"labels": each} for each in alerts]).encode()
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{alertmanager.url}/api/v2/alerts", body, {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 - our own server

    def look() -> set[int]:
        held = [each for each in alertmanager.alerts() if each["labels"] in alerts]
        assert len(held) == len(alerts)
        return {alerts.index(each["labels"]) for each in held if each["status"]["inhibitedBy"]}

    wait_for(lambda: len(alerts) - 1 in look(), f"the last of {alerts} to be hidden")
    return look()


def of(place: Labels, alert: Labels, comparison: str) -> Labels:
    return {**alert, **place, "comparison": comparison}


@pytest.mark.parametrize(
    ("here", "there"),
    [(BLUE, GREEN), (EAST, WEST), ({"job": "rankwatch"}, {"job": "rankwatch-eu"})],
    ids=["namespace", "cluster", "job"],
)
@pytest.mark.parametrize("target", [NO_RUN, FAILING], ids=["no-run", "source"])
def test_what_rankwatch_tells_hides_what_prometheus_sees_of_it_in_its_own_environment_alone(
    alertmanager: AlertmanagerServer, here: Labels, there: Labels, target: Labels
) -> None:
    comparison = f"{target['alertname']}-{len(here)}-{there['job']}"
    alerts = (of(here, STALE, comparison), of(there, target, comparison), of(here, target, comparison))
    assert hidden(alertmanager, *alerts) == {2}


def test_an_alert_without_labels_of_its_environment_hides_nothing_of_any(alertmanager: AlertmanagerServer) -> None:
    alerts = (of({}, STALE, "plain"), of(BLUE, NO_RUN, "plain"), of({}, NO_RUN, "plain"))
    assert hidden(alertmanager, *alerts) == {2}


def test_a_job_without_a_leader_and_one_that_is_down_hide_nothing_of_others(alertmanager: AlertmanagerServer) -> None:
    places = ({"job": "rankwatch-a"}, {"job": "rankwatch-b"}, {"job": "rankwatch-c", "cluster": "x"}, {"job": "rankwatch-c"})
    a, b, x, plain = places
    assert hidden(alertmanager, {**NO_LEADER, **a}, of(b, NO_RUN, "c"), of(a, NO_RUN, "c")) == {2}
    assert hidden(alertmanager, {**DOWN, **x}, {**NO_LEADER, **plain}, {**NO_LEADER, **x}) == {2}
