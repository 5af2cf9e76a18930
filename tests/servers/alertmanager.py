"""A real Prometheus Alertmanager on loopback."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import free_port, require

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
    """One peer, on one port for its whole life, started and stopped at will; what it notifies goes to ``notify_url``."""

    def __init__(self, directory: Path, notify_url: str | None = None) -> None:
        self._program = require("prometheus-alertmanager", "alertmanager")
        self._directory, self._port = directory, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        hook = f"    webhook_configs: [{{url: {json.dumps(notify_url)}, send_resolved: true}}]\n" if notify_url else ""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.yml").write_text(_CONFIG + hook)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        arguments = [
            self._program,
            f"--config.file={self._directory / 'config.yml'}",
            f"--storage.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--cluster.listen-address=",
        ]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(arguments, stdout=log, stderr=log)
        ends_at = time.monotonic() + 20
        while not self._is_ready():
            assert time.monotonic() < ends_at, (self._directory / "log").read_text()
            assert self._process.poll() is None, (self._directory / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def alerts(self) -> list[dict[str, Any]]:
        """What it holds now, resolved ones left out by itself."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=5) as answer:  # noqa: S310 - our own server
            held: list[dict[str, Any]] = json.load(answer)
        return held

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1) as answer:  # noqa: S310 - our own server
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@pytest.fixture
def make_alertmanager(tmp_path: Path) -> Iterator[Callable[..., AlertmanagerServer]]:
    """Make peers; all are stopped at the end. They are not started."""
    made: list[AlertmanagerServer] = []

    def make(notify_url: str | None = None) -> AlertmanagerServer:
        made.append(AlertmanagerServer(tmp_path / f"alertmanager-{len(made)}", notify_url))
        return made[-1]

    yield make
    for server in made:
        server.stop()
