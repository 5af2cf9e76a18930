"""Object storage as moto plays it, with the identities that may be asked for."""

import logging
from contextlib import contextmanager

import fsspec

from servers import missing


@contextmanager
def forgotten_stores():
    """fsspec keeps its clients, also those of servers that have stopped. Before and after, it has none."""
    kind = fsspec.get_filesystem_class("s3")
    kind.clear_instance_cache()
    yield
    kind.clear_instance_cache()


@contextmanager
def running_buckets():
    """The address of a server of buckets, which is loaded now: that takes longer than most tests."""
    try:
        import s3fs  # noqa: F401, PLC0415 - what reads and fills them
        from moto.server import ThreadedMotoServer  # noqa: PLC0415
    except ImportError:
        missing("moto and s3fs are not installed: pip install 'moto[s3]' flask flask-cors s3fs")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it writes a line a request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()
