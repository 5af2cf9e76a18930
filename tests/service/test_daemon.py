"""The daemon as its own process, under real signals."""

import json
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from monitor.storage import open_store
from servers.daemon import serving
from servers.webhook import Collector, hang
from service.lists_world import APART, write_config, write_lists, write_world

pytestmark = pytest.mark.early


def test_removing_a_comparison_whose_alert_fires_ends_the_alert_and_tells_receivers(
    tmp_path: Path, collector: Collector
) -> None:
    url = f"sqlite:///{tmp_path}/rankwatch.db"
    hook = f'receivers: [{{webhook: {{url: "{collector.url}/hook"}}}}]\n'
    config = write_world(tmp_path, url, every="2s", receivers=hook, names=("old", "kept"))
    write_lists(tmp_path / "candidate.jsonl", APART)
    with serving(config) as daemon:
        count = len(collector.wait_for(2))
        write_config(tmp_path, url, every="2s", receivers=hook, names=("kept",))
        daemon.send(signal.SIGHUP)
        # On a busy machine others may come in between, that runs are late.
        while b"removed from the configuration" not in collector.requests[count - 1].body:
            collector.wait_for(count := count + 1)
    last = json.loads(collector.requests[count - 1].body)
    assert (last["status"], last["groupLabels"]["comparison"]) == ("resolved", "old")


def test_sigterm_during_a_hung_pull_ends_in_time_and_gives_the_slot_back(tmp_path: Path, collector: Collector) -> None:
    url = f"sqlite:///{tmp_path}/rankwatch.db"
    collector.default = hang
    config = write_world(tmp_path, url, every="1h")
    source = f'candidate: {{http: {{url: "{collector.url}/{{user}}", timeout: 5m, retries: 0}}}}'
    config.write_text(
        config.read_text().replace("candidate: {file: {path: candidate.jsonl, user: user_id, items: items}}", source)
    )
    with serving(config) as daemon:
        collector.wait_for(1)
        start = time.monotonic()
        assert daemon.terminate() == 0
        assert time.monotonic() - start < 100
    with closing(open_store(url, create=False)) as store:
        assert store.history.runs(comparison=None, limit=1000) == ()


def test_threads_that_come_and_go_share_two_heaps() -> None:
    """As many as one a thread grow by what each keeps between its pieces. Counted by the C library itself."""
    script = """
import ctypes, sys, threading
from monitor.service.daemon.threads import share_heaps
sys.argv[1:] and share_heaps()
c, together = ctypes.CDLL(None), threading.Barrier(8)
c.fopen.restype = ctypes.c_void_p
def take():
    pieces = [bytes(2000) for _ in range(100)]
    together.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
[each.start() for each in threads], [each.join() for each in threads]
out = ctypes.c_void_p(c.fopen(b"/dev/stdout", b"w"))
c.malloc_info(0, out), c.fclose(out)
"""
    command = [sys.executable, "-c", script]
    heaps = [subprocess.check_output([*command, *args], text=True).count("<heap nr=") for args in ([], ["shared"])]
    assert heaps[1] <= 2 < heaps[0]
