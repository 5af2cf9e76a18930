"""Servers between a process that ends and Prometheus: a node_exporter that reads textfiles, and a Pushgateway."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import requests

from servers import free_port, require, running


@contextmanager
def running_node_exporter(folder):
    """Its URL; it reads the textfiles of the folder and nothing else."""
    options = [
        "--collector.disable-defaults",
        "--collector.textfile",
        f"--collector.textfile.directory={folder}",
    ]
    with _running(require("prometheus-node-exporter", "node_exporter"), *options) as url:
        yield url


@contextmanager
def running_pushgateway(*options):
    """Its URL; what is pushed is kept in memory alone."""
    with _running(
        require("prometheus-pushgateway", "pushgateway"), "--persistence.file=", *options
    ) as url:
        yield url


@contextmanager
def _running(program, *options):
    address = f"127.0.0.1:{free_port()}"
    home = Path(tempfile.mkdtemp(prefix="rankwatch-pushing-"))
    command = [program, f"--web.listen-address={address}", *options]
    with running(
        command, lambda: requests.get(f"http://{address}/", timeout=60), home, signal="KILL"
    ):
        yield f"http://{address}"
