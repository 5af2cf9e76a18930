"""What people hear over a whole story, from rankwatch and from Prometheus, by the shipped rules and routes."""

from collections.abc import Iterator

import pytest

from deploy import dashboards
from deploy.dashboards import Page
from deploy.shipped import alerts
from deploy.story import Story, told

pytestmark = [pytest.mark.early, pytest.mark.integration]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Played once; its Prometheus answers queries about each chapter until the end."""
    with told(tmp_path_factory.mktemp("story")) as played:
        yield played


def test_people_hear_of_every_fault_once_and_of_nothing_else(story: Story) -> None:
    said = story.heard.said

    assert said["on-call"] == [
        ("SimilarityLow", "firing"),
        ("SimilarityLow", "resolved"),
        ("Stale", "firing"),
        ("RankwatchDown", "firing"),
    ]
    assert said["tickets"] == [("RunFailing", "firing")]


def test_a_healthy_daemon_lets_no_alert_fire(story: Story) -> None:
    assert story.prometheus.query('ALERTS{alertstate="firing"}', at=story.chapters["healthy"]) == []


def test_what_rankwatch_tells_itself_is_seen_by_prometheus_and_told_to_nobody(story: Story) -> None:
    mirrors = {alert.name for alert in alerts() if alert.notified_by == "rankwatch"}
    seen = story.prometheus.query('ALERTS{alertstate="firing"}', at=story.chapters["fault"])

    assert {alert for alert, _ in story.heard.said["nobody"]} <= mirrors
    assert {"RankwatchSimilarityAlertFiring", "RankwatchUsersBelowFloorFastBurn"} <= {
        sample["metric"]["alertname"] for sample in seen
    }


def test_a_source_that_is_down_is_one_alert_though_three_rules_see_it(story: Story) -> None:
    firing = 'ALERTS{alertname="RankwatchSourceFailing", alertstate="firing", arm="candidate"}'

    assert len(story.prometheus.query(firing, at=story.chapters["source down"])) == 1
    assert not any(story.heard.last(receiver, "RankwatchSourceFailing") for receiver in story.heard.said)


def test_similarity_is_shown_while_it_is_known_and_not_while_it_is_not(story: Story) -> None:
    means = {
        chapter: [float(sample["value"][1]) for sample in story.prometheus.query(_MEAN, at=at)]
        for chapter, at in story.chapters.items()
    }

    assert means == {"healthy": [1.0], "fault": [0.0], "healed": [1.0], "source down": [], "daemon stopped": []}


_MEAN = 'rankwatch_similarity_mean{segment="all", metric="rbo(p=0.9)"}'


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_every_query_of_every_panel_gives_data_at_some_time_of_the_story(story: Story, name: str) -> None:
    board = dashboards.read(name)
    many = {each for each, variable in dashboards.variables(board).items() if variable.get("multi")}
    (instance,) = {sample["metric"]["instance"] for sample in story.prometheus.query("up", at=story.chapters["healthy"])}
    values = {**_CHOSEN, "comparison": ["home-feed"] if "comparison" in many else "home-feed", "instance": [instance]}
    page = Page(values=values, rate_interval=f"{3000 // story.pace}s")

    empty = {
        title
        for title, target in dashboards.promql(board)
        if not any(story.prometheus.query(page.promql(target["expr"]), at=at) for at in story.chapters.values())
    }

    assert empty == _LATER.get(name, set())


_LATER = {"rankwatch-daemon": {"Time since rows were last deleted"}}
"""What a daemon has only after its first hour."""
_CHOSEN = {
    "job": ["rankwatch"],
    "metric": "rbo(p=0.9)",
    "arm_metric": "catalogue_coverage",
    "segment": ["all", "country=DE"],
    "alert": ["SimilarityLow", "MeanDrop"],
}
