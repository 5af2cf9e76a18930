"""`rankwatch serve` as its own process, which can be killed, stopped and asked."""

import os
import re
import time
from contextlib import contextmanager

import pytest
import requests

from forking import ended, started


def wait_for(look, what, *, timeout_s=500.0):
    """First truthy answer of ``look``; the test fails naming ``what`` when none comes in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.05)
    pytest.fail(f"not seen within {timeout_s} s: {what}")


def find_address(log, begin=0):
    """The address of the daemon that writes this log from ``begin`` on, as soon as it has started."""
    text = log.read_bytes()[begin:].decode() if log.exists() else ""
    found = re.search(r'"url": "(\S+)", .*"rankwatch started"', text)
    return found and found[1]


class ServeProcess:
    """A running daemon; ``log`` is what it wrote to standard error."""

    def __init__(self, config, log):
        self.log = log
        begin = log.stat().st_size if log.exists() else 0
        self._process = started(
            ["serve", "--config", str(config)], cwd=config.parent, out=log, err=log
        )
        try:
            self.url = str(wait_for(lambda: self._address(begin), f"the daemon's address in {log}"))
        except BaseException:
            self.kill()
            raise

    def _address(self, begin):
        assert ended(self._process, 0) is None, f"the daemon ended: {self.log.read_text()}"
        return find_address(self.log, begin)

    @property
    def pid(self):
        assert self._process.pid is not None
        return self._process.pid

    def metrics(self):
        return requests.get(f"{self.url}/metrics", timeout=60).text

    def status_of(self, path):
        return requests.get(self.url + path, timeout=60).status_code

    def send(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self._process.kill()
        ended(self._process)

    def terminate(self):
        self._process.terminate()
        exit_code = ended(self._process)
        assert exit_code is not None, "still there long after SIGTERM"
        return exit_code


@contextmanager
def serving(config):
    """A daemon on this configuration, killed at the end if it still runs."""
    process = ServeProcess(config, config.parent / "serve.log")
    try:
        yield process
    finally:
        process.kill()
