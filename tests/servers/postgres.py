"""A private PostgreSQL for one test session, and fresh databases in it."""

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from monitor.model.immutable import immutable
from servers import free_port, missing, require, running
from tables import cells

USER = "rankwatch"
PASSWORD = "canary-pg-3f9a"  # noqa: S105 - of a server that lives as long as the test session

_SETTINGS = dict(
    cells("""
listen_addresses    127.0.0.1
fsync               off
full_page_writes    off
synchronous_commit  off
shared_buffers      64MB
max_connections     60
max_wal_size        128MB
""")
)
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own in it
_ROOM = 2 << 30


@immutable
class PostgresServer:
    """A running server; the user is a superuser."""

    port: int

    def url(self, database):
        return f"postgresql+psycopg://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def connect(self, database="postgres"):
        """A plain connection in autocommit."""
        return psycopg.connect(
            self.url(database).replace("+psycopg", ""), autocommit=True, connect_timeout=5
        )

    @contextmanager
    def database(self, template="template1"):
        """The URL of a fresh copy of the template. It is dropped at the end, with all connections."""
        name = f"rankwatch_{uuid.uuid4().hex[:12]}"
        with self.connect() as admin:
            # Without fsync, copying files takes half the time of logging pages; before 15 it is the
            # only way.
            strategy = sql.SQL("STRATEGY FILE_COPY" if admin.info.server_version >= 150000 else "")
            create = sql.SQL("CREATE DATABASE {} TEMPLATE {} {}")
            admin.execute(create.format(sql.Identifier(name), sql.Identifier(template), strategy))
        try:
            yield self.url(name)
        finally:
            with self.connect() as admin:
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def unprivileged():
    """The account for servers that refuse to run as root. None if this process does not run as root."""
    if os.geteuid() != 0:
        return None
    found = {entry.pw_name for entry in pwd.getpwall()} & {"postgres", "nobody"}
    return max(found) if found else missing("no account but root to run servers under")


def _create(home, account):
    data, password = home / "data", home / "password"
    password.write_text(PASSWORD)
    if account:
        for path in (home, password):
            shutil.chown(path, account, pwd.getpwnam(account).pw_gid)
    command = [require("initdb"), f"--pgdata={data}", f"--username={USER}", f"--pwfile={password}"]
    command += ["--encoding=UTF8", "--no-locale", "--no-sync"]
    command += ["--auth-local=trust", "--auth-host=scram-sha-256"]
    subprocess.run(command, user=account, cwd=home, check=True, capture_output=True)
    return data


@contextmanager
def running_postgres(*, in_memory=True):
    """Start a server in its own directory on a random loopback port.

    It is stopped and removed at the end.
    """
    program, account = require("postgres"), unprivileged()
    # Each fresh database is a thousand files: in memory they take a fifth off the tests of storage.
    in_memory = (
        in_memory
        and _IN_MEMORY.is_dir()
        and os.access(_IN_MEMORY, os.W_OK)
        and shutil.disk_usage(_IN_MEMORY).free > _ROOM
    )
    home = Path(tempfile.mkdtemp(prefix="rankwatch-pg-", dir=_IN_MEMORY if in_memory else None))
    data, server = _create(home, account), PostgresServer(port=free_port())
    settings = _SETTINGS | {"port": str(server.port), "unix_socket_directories": str(home)}
    if not in_memory:
        settings["shared_buffers"] = "1GB"  # as on a server with much data
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with running(
        [program, "-D", str(data), *options],
        lambda: server.connect().close(),
        home,
        account=account,
        signal="INT",
        refusal=psycopg.OperationalError,
    ):
        yield server
