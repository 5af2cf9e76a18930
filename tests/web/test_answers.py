"""What machines are answered, and what every answer has in common."""

import gzip
import inspect
import threading
from typing import Any

import pytest

from monitor.web import app as web_app


def test_metrics_are_served_as_text(client: Any) -> None:
    status, headers, body = client.get("/metrics")

    assert status == 200
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b'rankwatch_similarity_mean{comparison="home-feed",metric="rbo(p=0.9)",segment="all"} 0.625\n' in body


def test_metrics_come_packed_and_as_openmetrics_when_asked(client: Any) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}

    status, headers, body = client.get("/metrics", **accept)

    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert headers["content-type"].startswith("application/openmetrics-text")
    assert gzip.decompress(body).endswith(b"# EOF\n")


def test_probes_say_so_and_why_when_not_and_pages_are_served_all_the_same(client: Any, health: Any) -> None:
    for path, word in (("/-/healthy", b"healthy"), ("/-/ready", b"ready")):
        assert client.get(path)[::2] == (200, word + b"\n")

    health.sick, health.lacking = "the scheduler has not moved for 90 s", "the database is away"

    assert client.get("/-/healthy")[::2] == (503, b"not healthy: the scheduler has not moved for 90 s\n")
    assert client.get("/-/ready")[::2] == (503, b"not ready: the database is away\n")
    assert client.get("/metrics")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("POST", "/metrics", 405), ("HEAD", "/metrics", 200)]
)
def test_other_paths_and_methods_get_their_plain_answer(client: Any, method: str, path: str, status: int) -> None:
    assert client.status(path, method=method) == status


def test_no_answer_names_the_server_software(client: Any) -> None:
    for path in ("/", "/metrics", "/-/healthy", "/nowhere"):
        assert "server" not in client.get(path)[1]


def test_a_readiness_that_does_not_answer_counts_as_not_ready(
    client: Any, health: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_app, "_HEALTH_S", 2)
    health.release = threading.Event()
    try:
        status, _, body = client.get("/-/ready")
        healthy, *_ = client.get("/-/healthy")
    finally:
        health.release.set()

    assert (status, body) == (503, b"not ready: no answer within 2 s\n")
    assert healthy == 200


def test_no_data_of_a_page_has_a_default_that_would_hide_that_nobody_hands_it_over() -> None:
    parameters = inspect.signature(web_app.create_app).parameters
    assert [name for name, each in parameters.items() if each.default is not each.empty] == []
