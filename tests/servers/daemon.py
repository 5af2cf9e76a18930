"""`rankwatch serve` as its own process, which can be killed, stopped and asked."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import requests

T = TypeVar("T")


def wait_for(look: Callable[[], T], what: str, *, timeout_s: float = 45.0) -> T:
    """First truthy answer of ``look``; the test fails naming ``what`` when none comes in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.05)
    pytest.fail(f"not seen within {timeout_s} s: {what}")


STARTS_WITHIN_S = 90.0
"""A busy machine takes its time to load the program."""


class ServeProcess:
    """A running daemon; ``log`` is what it wrote to standard error."""

    def __init__(self, config: Path, log: Path) -> None:
        self.log = log
        with log.open("ab") as sink:
            begin = sink.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "monitor", "serve", "--config", str(config)], stderr=sink, stdout=sink, cwd=config.parent
            )
        try:
            self.url = str(wait_for(lambda: self._address(begin), f"the daemon's address in {log}", timeout_s=STARTS_WITHIN_S))
        except BaseException:
            self.kill()
            raise

    def _address(self, begin: int) -> str | None:
        text = self.log.read_bytes()[begin:].decode()
        assert self._process.poll() is None, f"the daemon ended: {text}"
        found = re.search(r"rankwatch serves (\S+)/ ", text)
        return found[1] if found else None

    @property
    def pid(self) -> int:
        return self._process.pid

    def metrics(self) -> str:
        return requests.get(f"{self.url}/metrics", timeout=5).text

    def status_of(self, path: str) -> int:
        return requests.get(self.url + path, timeout=5).status_code

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def terminate(self) -> int:
        self._process.terminate()
        return self._process.wait(30)


@contextmanager
def serving(config: Path) -> Iterator[ServeProcess]:
    """A daemon on this configuration, killed at the end if it still runs."""
    process = ServeProcess(config, config.parent / "serve.log")
    try:
        yield process
    finally:
        process.kill()
