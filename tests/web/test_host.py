"""Under which names the server answers, and that no other site's page makes it read its configuration again."""

import pytest

from monitor.web.access import Access
from web.sites import KIM, serving

OURS = """
localhost LOCALHOST:29108 localhost. 127.0.0.1:29108 127.1.2.3 [::1]:29108 10.1.2.3:29108 [fd00::7]:29108
rankwatch.example.com Rankwatch.Example.com:443
"""
"""An address is what Kubernetes and Prometheus ask a pod by."""
OTHERS = """
evil.test evil.test:29108 localhost.evil.test 127.0.0.1.evil.test rankwatch.example.com.evil.test
example.com user@evil.test [::1
"""
PAGES = "/ /c/home-feed /api/v1/comparisons /api/v1/openapi.json /no-such-page"
FOR_MACHINES = "/metrics /-/healthy /-/ready /api/v1/gate/home-feed?margin=0.1"


@pytest.fixture
def open_site(client):
    """Nobody has to authenticate."""
    client.server.use_access(Access(hosts=frozenset({"rankwatch.example.com"})))
    return client


def test_pages_are_shown_under_our_names_and_addresses(open_site):
    for host in OURS.split():
        assert open_site.get("/api/v1/openapi.json", Host=host)[0] == 200


def test_a_page_of_another_name_reads_nothing_where_nobody_authenticates(open_site):
    for host in [*OTHERS.split(), ""]:
        for path in PAGES.split():
            status, _, body = open_site.get(path, Host=host)
            assert status == 421
            assert b"external_url" in body


def test_monitoring_and_deployments_may_ask_by_the_name_of_a_service(open_site):
    for path in FOR_MACHINES.split():
        by_name = open_site.get(path, Host="rankwatch.monitoring.svc:29108")
        by_address = open_site.get(path, Host="10.1.2.3:29108")
        assert by_name[0] == by_address[0] != 421


def test_a_probe_by_another_name_gets_no_reason(open_site, health):
    health.lacking = "no database at db.internal"
    assert open_site.get("/-/ready", Host="evil.test")[2] == b"not ready\n"
    assert (
        open_site.get("/-/ready", Host="10.1.2.3")[2] == b"not ready: no database at db.internal\n"
    )


def test_any_name_will_do_where_everybody_authenticates():
    with serving() as site:
        assert site.get("/metrics", KIM, Host="proxy.internal")[0] == 200
