"""Of two daemons one loses its database: what it saw last, and nobody confirms, must not stand for both."""

from pathlib import Path

import published
from deploy import dashboards
from deploy.dashboards import Page
from deploy.scrape_target import serving_page
from factories import HeldClock
from monitor.errors import DatabaseTrouble
from monitor.export import PrometheusPublisher
from monitor.export.publisher import SHOWN_UNCONFIRMED_S
from monitor.model.alerts import State
from monitor.model.runs import LatestRun
from servers.prometheus import running_prometheus

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
