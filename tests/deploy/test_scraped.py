"""What a real Prometheus makes of the published page."""

from typing import Any

import pytest

import published
from servers.prometheus import QueryError


def test_the_recorded_series_give_data_and_the_mirror_alert_fires(watched: Any) -> None:
    share = watched.prometheus.await_query("comparison:rankwatch_paired_users:ratio")
    firing = watched.prometheus.await_query('ALERTS{alertname="RankwatchSimilarityAlertFiring", alertstate="firing"}')

    assert [float(sample["value"][1]) for sample in share] == [0.95]
    assert [(sample["metric"]["alert"], sample["metric"]["severity"]) for sample in firing] == [("SimilarityLow", "critical")]


def test_a_query_that_does_not_parse_is_refused(watched: Any) -> None:
    with pytest.raises(QueryError, match="parse error"):
        watched.prometheus.query("sum(")


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
