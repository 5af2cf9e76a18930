"""The dashboard's queries on a real Prometheus, and its form."""

import re
import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import published
from monitor.model import RunStatus
from servers.prometheus import QueryError

VARIABLES = {
    "$comparison": "home-feed",
    "$metric": "rbo(p=0.9)",
    "$arm_metric": "catalogue_coverage",
    "$segment": "all|country=UK",
    "$__rate_interval": "1m",
}
FOREIGN = {"process_resident_memory_bytes", "process_cpu_seconds_total"}


def _panels(dashboard: Any) -> Iterator[tuple[dict[str, Any], str]]:
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel, target["expr"]


def _filled_in(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


def test_the_file_is_what_its_generator_writes(deploy: Path) -> None:
    generator = runpy.run_path(str(deploy / "grafana" / "generate.py"))

    assert generator["TARGET"].read_text(encoding="utf-8") == generator["text"]()


def test_every_query_of_every_panel_gives_data(watched: Any, dashboard: Any) -> None:
    watched.prometheus.await_query("increase(rankwatch_runs_total[1m]) > 0")

    empty = [(panel["title"], query) for panel, query in _panels(dashboard) if not watched.prometheus.query(_filled_in(query))]

    assert empty == []


def test_every_variable_finds_its_values(watched: Any, dashboard: Any) -> None:
    values = {
        "comparison": {"home-feed"},
        "metric": {"rbo(p=0.9)"},
        "arm_metric": {"catalogue_coverage"},
        "segment": {"all", "country=UK"},
    }
    found = {}
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((?P<series>.+), (?P<label>\w+)\)", variable["query"]["query"])
            assert match
            watched.prometheus.await_query(_filled_in(match["series"]))
            found[variable["name"]] = watched.prometheus.get(
                f"label/{match['label']}/values", **{"match[]": _filled_in(match["series"])}
            )

    assert set(found) == set(values)
    assert [name for name, expected in values.items() if not expected <= set(found[name])] == []


def test_annotations_give_data(watched: Any, dashboard: Any) -> None:
    for annotation in dashboard["annotations"]["list"]:
        assert watched.prometheus.await_query(_filled_in(annotation["expr"]))


def test_the_recorded_series_give_data_and_the_mirror_alert_fires(watched: Any) -> None:
    share = watched.prometheus.await_query("comparison:rankwatch_paired_users:ratio")
    firing = watched.prometheus.await_query('ALERTS{alertname="RankwatchSimilarityAlertFiring", alertstate="firing"}')

    assert [float(sample["value"][1]) for sample in share] == [0.95]
    assert [(sample["metric"]["alert"], sample["metric"]["severity"]) for sample in firing] == [("SimilarityLow", "critical")]


def test_a_query_that_does_not_parse_is_refused(watched: Any) -> None:
    with pytest.raises(QueryError, match="parse error"):
        watched.prometheus.query("sum(")


def test_the_target_is_up_and_its_values_are_those_published(watched: Any) -> None:
    assert watched.prometheus.await_query('up{job="rankwatch"} == 1')
    mean = watched.prometheus.await_query('rankwatch_similarity_mean{segment="all"}')

    assert [float(sample["value"][1]) for sample in mean] == [0.625]


@pytest.mark.parametrize(
    "name", ['say "hi"', "a\nb", "{x=~'.*'}", "back\\slash", "}\n# TYPE evil counter\nevil 1\n", "العربية"]
)
def test_a_hostile_segment_name_arrives_as_it_is(watched: Any, name: str) -> None:
    watched.publisher.publish([published.latest(summaries=(published.summary(segment=name, mean=0.75),))])
    try:
        seen = watched.prometheus.await_query("rankwatch_similarity_mean == 0.75")
        evil = watched.prometheus.query("evil")
    finally:
        watched.publisher.publish([published.latest()])
    watched.prometheus.await_query("rankwatch_similarity_mean == 0.625")

    assert [sample["metric"]["segment"] for sample in seen] == [name]
    assert evil == []


def test_a_comparison_published_no_more_is_gone_with_the_next_scrape(watched: Any) -> None:
    watched.publisher.publish([published.named("search"), published.latest()])
    try:
        watched.prometheus.await_query('rankwatch_similarity_mean{comparison="search"}')
    finally:
        watched.publisher.publish([published.latest()])

    watched.prometheus.await_query('{comparison="search"}', lambda samples: not samples)


def test_a_failed_run_takes_similarity_away_and_leaves_its_status(watched: Any) -> None:
    watched.publisher.publish([published.latest(run=published.run(status=RunStatus.FAILED))])
    try:
        watched.prometheus.await_query('rankwatch_run_status{status="failed"} == 1')
        watched.prometheus.await_query('{__name__=~"rankwatch_similarity_.+"}', lambda samples: not samples)
        paired = watched.prometheus.query('rankwatch_paired_users{segment="all"}')
    finally:
        watched.publisher.publish([published.latest()])
    watched.prometheus.await_query("rankwatch_similarity_mean")

    assert [float(sample["value"][1]) for sample in paired] == [190]


def test_the_dashboard_uses_only_series_that_exist(dashboard: Any) -> None:
    known = published.series_names() | FOREIGN
    queries = [query for _, query in _panels(dashboard)]
    queries += [variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    used = {name for query in queries for name in re.findall(r"\b(?:rankwatch|process|python)_\w+", query)}

    assert used - known == set()


def test_every_panel_has_a_place_a_description_and_a_unit_of_its_own(dashboard: Any) -> None:
    taken: Counter[tuple[int, int]] = Counter()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        taken.update(
            (x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])
        )
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}

    assert set(taken.values()) == {1}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_rates_use_the_interval_that_grafana_computes(dashboard: Any) -> None:
    windows = {window for _, query in _panels(dashboard) for window in re.findall(r"\[([^\]]+)\]", query)}

    assert windows == {"$__rate_interval"}
