"""A real Prometheus Alertmanager on loopback."""

import json
import subprocess
import urllib.request

import pytest

from servers import await_start, free_port, require

_CONFIG = """
route:
  receiver: out
  group_by: ["..."]
  group_wait: 0s
  group_interval: 1s
  repeat_interval: 1h
receivers:
  - name: out
"""


class AlertmanagerServer:
    """On one port for its whole life, started and stopped at will.

    What it notifies goes to ``notify_url``, or where ``config`` says.
    """

    def __init__(self, directory, notify_url=None, config=None):
        self._program = require("prometheus-alertmanager", "alertmanager")
        self._directory, self.port = directory, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        hook = (
            f"    webhook_configs: [{{url: {json.dumps(notify_url)}, send_resolved: true}}]\n"
            if notify_url
            else ""
        )
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.yml").write_text(_CONFIG + hook if config is None else config)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        arguments = [
            self._program,
            f"--config.file={self._directory / 'config.yml'}",
            f"--storage.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
        ]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(arguments, stdout=log, stderr=log)

        await_start(lambda: self._get("/-/ready"), self._process, self._directory / "log")

    def stop(self):
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def alerts(self):
        """Its alerts, without resolved ones."""
        return json.loads(self._get("/api/v2/alerts"))

    def _get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return answer.read()


@pytest.fixture
def make_alertmanager(tmp_path):
    """Make some; all are stopped at the end. They are not started."""
    made = []

    def make(notify_url=None):
        made.append(AlertmanagerServer(tmp_path / f"alertmanager-{len(made)}", notify_url))
        return made[-1]

    yield make
    for server in made:
        server.stop()
