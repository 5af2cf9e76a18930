"""A private Prometheus with a fast scrape, for tests that ask it what it saw.

``running_prometheus`` starts one.
"""

import json
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import yaml

from monitor.model.immutable import immutable
from servers import free_port, require, running

_PATIENCE_S = 120.0


@immutable
class Prometheus:
    """A running server."""

    url: str

    def get(self, path, **parameters):
        """What the API answers under ``data``; RuntimeError when it refuses."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from None

    def query(self, promql, at=None):
        """Samples of an instant query, now or ``at`` (seconds since 1970): each with ``metric`` (labels) and ``value``."""
        data = self.get("query", query=promql, **({} if at is None else {"time": f"{at:.3f}"}))
        return (
            data["result"]
            if data["resultType"] == "vector"
            else [{"metric": {}, "value": data["result"]}]
        )

    def await_query(self, promql, is_good=bool):
        """The samples once they are good; fails the test when they are not in time."""
        deadline = time.monotonic() + _PATIENCE_S
        while not is_good(samples := self.query(promql)):
            if time.monotonic() > deadline:
                pytest.fail(
                    f"Prometheus never came to a good answer to {promql}; the last was {samples}"
                )
            time.sleep(0.1)
        return samples


@contextmanager
def running_prometheus(
    *targets, rules=(), interval="200ms", scrape=None, alertmanager=None, data=None, options=()
):
    """Scrape ``host:port`` targets under job="rankwatch" and evaluate the rule files, both every ``interval``.

    ``scrape`` is more of the scrape configuration, such as how to log in. Alerts go to ``alertmanager``, as ``host:port``.
    ``data`` are blocks to start from; ``options`` more arguments of the program.
    """
    program = require("prometheus")
    home = Path(tempfile.mkdtemp(prefix="rankwatch-prometheus-"))
    config, port = home / "prometheus.yml", free_port()
    targeted = {"job_name": "rankwatch", "static_configs": [{"targets": list(targets)}]}
    notified = {"static_configs": [{"targets": [alertmanager] if alertmanager else []}]}
    timing = ("scrape_interval", "scrape_timeout", "evaluation_interval")
    document = {
        "global": dict.fromkeys(timing, interval),
        "rule_files": [str(path) for path in rules],
        "alerting": {"alertmanagers": [notified]},
        "scrape_configs": [targeted | dict(scrape or {})],
    }
    config.write_text(yaml.safe_dump(document))
    stored, url = data or home / "data", f"http://127.0.0.1:{port}"
    own = [
        f"--config.file={config}",
        f"--storage.tsdb.path={stored}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    command = [program, *own, *options, "--log.level=warn"]
    with running(
        command, lambda: requests.get(f"{url}/-/ready", timeout=5).raise_for_status(), home
    ):
        yield Prometheus(url=url)
