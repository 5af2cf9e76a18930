"""A real Prometheus Alertmanager on loopback, alone or as a peer of a cluster."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
_ALONE = ("--cluster.listen-address=",)
_QUICK = ("--cluster.gossip-interval=50ms", "--cluster.pushpull-interval=1s", "--cluster.reconnect-interval=1s")
_TURN = "--cluster.peer-timeout=3s"
"""How long the second peer waits for the first to notify: longer than gossip takes on a busy machine."""


class MachineClock:
    """The clocks of the machine, by which a real Alertmanager ends alerts."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class AlertmanagerServer:
    """One peer, on one port for its whole life, started and stopped at will.

    What it notifies goes to ``notify_url``, or where ``config`` says.
    """

    def __init__(self, directory: Path, notify_url: str | None = None, config: str | None = None) -> None:
        self._program = require("prometheus-alertmanager", "alertmanager")
        self._directory, self.port, self._gossip_port = directory, free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._cluster: Sequence[str] = _ALONE
        hook = f"    webhook_configs: [{{url: {json.dumps(notify_url)}, send_resolved: true}}]\n" if notify_url else ""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.yml").write_text(_CONFIG + hook if config is None else config)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def join(self, fellow: "AlertmanagerServer") -> None:
        """Gossip with this one too, from the next start on."""
        ports = (self._gossip_port, fellow._gossip_port)
        own, other = (f"127.0.0.1:{port}" for port in ports)
        self._cluster = (f"--cluster.listen-address={own}", f"--cluster.peer={other}", _TURN, *_QUICK)

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Start, and do not wait until it answers."""
        arguments = [
            self._program,
            f"--config.file={self._directory / 'config.yml'}",
            f"--storage.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            *self._cluster,
        ]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(arguments, stdout=log, stderr=log)

    def await_ready(self) -> None:
        """Until it answers, and in a cluster has settled, before which it would notify nobody."""
        assert self._process is not None
        await_start(self._ask, self._process, self._directory / "log", within_s=120)

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def end(self) -> None:
        """End it as systemd does: it says farewell to its cluster and keeps what it has notified."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(60) == 0
        self._process = None

    def alerts(self) -> list[dict[str, Any]]:
        """What it holds now, resolved ones left out by itself."""
        held: list[dict[str, Any]] = json.loads(self._get("/api/v2/alerts"))
        return held

    def peers(self) -> int:
        """Members of its cluster as it sees it, itself included; none while it is no cluster."""
        return len(json.loads(self._get("/api/v2/status"))["cluster"].get("peers", ()))

    def received(self) -> dict[str, float]:
        """Alerts that it was posted since its start, by version of the API."""
        return self._counted("alertmanager_alerts_received_total", by="version")

    def exchanges(self) -> float:
        """How often since its start a peer gave it all that it knows, notifications that it has sent included."""
        return self._counted("alertmanager_cluster_messages_received_total", by="msg_type").get("full_state", 0.0)

    def _counted(self, series: str, *, by: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for line in self._get("/metrics").decode().splitlines():
            if line.startswith(f"{series}{{"):
                label = line.partition(f'{by}="')[2].partition('"')[0]
                found[label] = found.get(label, 0.0) + float(line.rpartition(" ")[2])
        return found

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=5) as answer:  # noqa: S310 - our own server
            body: bytes = answer.read()
        return body

    def _ask(self) -> None:
        """OSError unless it is ready."""
        self._get("/-/ready")
        if (status := json.loads(self._get("/api/v2/status"))["cluster"]["status"]) not in ("ready", "disabled"):
            raise BlockingIOError(status)


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
