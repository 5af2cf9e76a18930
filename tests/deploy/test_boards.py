"""Every query of every dashboard on a real Prometheus that scrapes a leading daemon and one that stands by or is frozen."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import published
from boards import DASHBOARDS
from boards.queries import UnknownError, prove
from deploy import dashboards
from deploy.dashboards import Page
from deploy.scrape_target import living, serving_page
from factories import HeldClock
from monitor.errors import DatabaseTrouble
from monitor.export import PrometheusPublisher
from monitor.export.publisher import SHOWN_UNCONFIRMED_S
from monitor.model.alerts import Expectation, State
from monitor.model.runs import LatestRun
from servers.prometheus import Prometheus, running_prometheus

METRIC = "rbo(p=0.9)"
PAGE = Page(
    values={
        "job": ["rankwatch"],
        "comparison": "home-feed",
        "metric": METRIC,
        "arm_metric": "catalogue_coverage",
        "segment": ["all", "country=UK", "odd \\ (p=0.9).*"],
        "alert": ["SimilarityLow", "MeanDrop"],
    }
)
OF_ONE_DAEMON = {"Daemons that lead"}
"""What tells daemons from each other, so that a second one shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A Prometheus over two daemons, and who leads."""

    prometheus: Prometheus
    leader: str


def _latest() -> LatestRun:
    """A run with a rule that learns from just the mean shown, and one on something else."""
    learns = published.state(alert="MeanDrop", value=0.625, threshold=0.5, state=State.QUIET)
    expected = Expectation(alert="MeanDrop", segment="all", runs=9, expected=0.625, limit=0.5, opposite=0.75, z=3.5)
    base = published.latest()
    return published.latest(states=(*base.states, learns), expectations=(*base.expectations, expected))


def _publisher(*, leads: bool) -> PrometheusPublisher:
    publisher = published.filled()
    publisher.publish([_latest()])
    publisher.led_by(lambda: (leads, 7))
    return publisher


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    leading, standing = _publisher(leads=True), _publisher(leads=False)
    with ExitStack() as stack:
        urls = [stack.enter_context(serving_page(publisher)) for publisher in (leading, standing)]
        stack.enter_context(living(leading))
        prometheus = stack.enter_context(running_prometheus(*urls))
        prometheus.await_query("count(rankwatch_build_info) == 2")
        prometheus.await_query("sum(increase(rankwatch_runs_total[1m])) > 0")
        yield Pair(prometheus=prometheus, leader=urls[0])


def _page(board: Any, leader: str) -> Page:
    many = {name for name, variable in dashboards.variables(board).items() if variable.get("multi")}
    comparison = {"comparison": ["home-feed"]} if "comparison" in many else {}
    return Page(values={**PAGE.values, **comparison, "instance": [leader]})


@pytest.fixture(params=dashboards.NAMES)
def board(request: pytest.FixtureRequest) -> Any:
    return dashboards.read(request.param)


def test_every_board_has_its_file() -> None:
    assert set(DASHBOARDS) == set(dashboards.NAMES) == {path.stem for path in dashboards.FOLDER.iterdir()}


def test_every_query_gives_data(pair: Pair, board: Any) -> None:
    page = _page(board, pair.leader)

    empty = [
        (title, target["expr"])
        for title, target in dashboards.promql(board)
        if not pair.prometheus.query(page.promql(target["expr"]))
    ]

    assert empty == []


def test_every_legend_names_labels_that_the_answer_has(pair: Pair, board: Any) -> None:
    page = _page(board, pair.leader)

    absent = [
        (title, label)
        for title, target in dashboards.promql(board)
        for label in re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
        if any(label not in sample["metric"] for sample in pair.prometheus.query(page.promql(target["expr"])))
    ]

    assert absent == []


@pytest.mark.parametrize("name", ["rankwatch-overview", "rankwatch-comparison"])
def test_a_daemon_that_stands_by_changes_no_number(pair: Pair, name: str) -> None:
    now = str(time.time())
    differ = []
    for title, target in dashboards.promql(board := dashboards.read(name)):
        query = _page(board, pair.leader).promql(target["expr"])
        of_one = query.replace('{job=~"rankwatch"', f'{{instance="{pair.leader}", job=~"rankwatch"')
        assert of_one != query
        both, one = (pair.prometheus.get("query", query=each, time=now)["result"] for each in (query, of_one))
        if both != one and title not in OF_ONE_DAEMON:
            differ.append((title, both, one))

    assert differ == []


def test_the_normal_band_beside_the_mean_is_of_the_rule_that_judges_this_mean(pair: Pair) -> None:
    (panel,) = (
        each
        for each in dashboards.panels(dashboards.read("rankwatch-comparison"))
        if each["title"] == "Similarity of all users"
    )
    values = {
        target["legendFormat"]: float(pair.prometheus.query(PAGE.promql(target["expr"]))[0]["value"][1])
        for target in panel["targets"]
    }

    assert values["similarity"] == 0.625
    assert (values["normal from"], values["normal to"], values["threshold"]) == (0.5, 0.75, 0.5)
    assert (values["error from"], values["error to"]) == (0.59375, 0.65625)


def test_a_value_with_special_characters_finds_its_series(pair: Pair) -> None:
    """The segment beside it has every character that could go wrong in an expression."""
    odd = Page(values={**PAGE.values, "segment": ["country=UK", 'a"b']})
    found = pair.prometheus.query(odd.promql('rankwatch_similarity_mean{job=~"$job", metric="$metric", segment=~"$segment"}'))

    assert {sample["metric"]["segment"] for sample in found} == {"country=UK"}
    assert {sample["metric"]["metric"] for sample in found} == {METRIC}


def test_every_variable_finds_its_values(pair: Pair, board: Any) -> None:
    expected = {
        "job": {"rankwatch"},
        "instance": {pair.leader},
        "comparison": {"home-feed"},
        "metric": {METRIC},
        "arm_metric": {"catalogue_coverage"},
        "segment": {"all", "country=UK"},
        "alert": {"SimilarityLow", "MeanDrop"},
    }
    page = _page(board, pair.leader)
    asked = {
        name: variable["query"]["query"]
        for name, variable in dashboards.variables(board).items()
        if variable["type"] == "query"
    }
    for name, query in asked.items():
        match = re.fullmatch(r"label_values\((?P<series>.+), (?P<label>\w+)\)", query)
        assert match
        found = pair.prometheus.get(f"label/{match['label']}/values", **{"match[]": page.promql(match["series"])})
        assert expected[name] <= set(found), name


@pytest.mark.parametrize(
    ("query", "legend", "trouble"),
    [
        ("sum(rankwatch_no_such_series)", "", "no series is called rankwatch_no_such_series"),
        ('rankwatch_leader{segment="all"}', "", "no label segment"),
        ("sum by (colour) (rankwatch_runs_total)", "", "no label colour"),
        ("rankwatch_leader", "{{comparison}}", "no label comparison"),
        ('rankwatch_run_duration_seconds{comparison="a"}', "", "no series is called rankwatch_run_duration_seconds"),
    ],
)
def test_a_query_over_what_nothing_shows_is_refused(query: str, legend: str, trouble: str) -> None:
    with pytest.raises(UnknownError, match=trouble):
        prove(query, legend)


def test_a_query_over_what_is_shown_passes() -> None:
    query = 'sum by (le) (rate(rankwatch_run_duration_seconds_bucket{comparison=~"a|b", job="x"}[5m]))'

    assert prove(query, "{{le}}") == query


def test_every_series_stands_on_a_dashboard_or_is_known_not_to() -> None:
    """A new series fails here until somebody has decided where it is looked at."""
    text = "".join((dashboards.FOLDER / f"{name}.json").read_text(encoding="utf-8") for name in dashboards.NAMES)
    stems = published.series_names() - {name for name in published.series_names() if name in text}
    shown_by_parts = {name for name in stems if re.search(rf"{re.sub('_(bucket|g?sum|g?count)$', '', name)}_", text)}

    assert stems - shown_by_parts == NOT_DRAWN


NOT_DRAWN = {
    "rankwatch_alert_users",
    "rankwatch_config_last_reload_success_timestamp_seconds",
    "rankwatch_noise_floor_users",
}
"""Users behind a value are in the message and on the page; the last reload is told by its flag."""


FIRING = 'ALERTS{alertname="RankwatchSimilarityAlertFiring", alertstate="firing"}'


def _healed() -> LatestRun:
    return published.latest(states=(published.state(state=State.QUIET),))


def test_an_alert_ends_once_the_daemon_that_has_a_database_says_so(deploy: Path) -> None:
    clock = HeldClock(published.SLOT)
    well, frozen = (published.fill(PrometheusPublisher(version="1", clock=clock)) for _ in range(2))
    firing = next(
        Page(values={"job": ["rankwatch"]}).promql(target["expr"])
        for title, target in dashboards.promql(dashboards.read("rankwatch-overview"))
        if title == "Alerts firing"
    )
    with serving_page(well) as one, serving_page(frozen) as other:
        rules = [deploy / "prometheus" / "rankwatch.rules.yml"]
        with running_prometheus(one, other, rules=rules) as prometheus:
            prometheus.await_query(f"{FIRING} and on () count(rankwatch_alert_state == 2) == 2")

            frozen.database_failed(DatabaseTrouble.UNREACHABLE)
            frozen.database(is_up=False)
            well.publish([_healed()])
            prometheus.await_query("rankwatch_alert_state == 0")
            assert prometheus.query(FIRING), "within a minute the database may be back"
            clock.pass_by(SHOWN_UNCONFIRMED_S)

            prometheus.await_query(FIRING, lambda samples: not samples)
            assert [float(each["value"][1]) for each in prometheus.await_query(firing)] == [0]
            assert len(prometheus.query("rankwatch_run_last_ok_timestamp_seconds")) == 2

            for publisher in (well, frozen):
                publisher.database_failed(DatabaseTrouble.UNREACHABLE)
                publisher.database(is_up=False)
            clock.pass_by(2 * SHOWN_UNCONFIRMED_S)
            prometheus.await_query(firing, lambda samples: not samples)
