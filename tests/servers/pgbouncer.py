"""PgBouncer before the session's PostgreSQL, handing each transaction to whatever connection is free.

Fixture: ``pooled`` makes the URL of a database through the pooler from its own.
"""

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from servers import connect_to, free_port, require, running
from servers.postgres import PASSWORD, USER, unprivileged

_CONFIG = """[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
default_pool_size = 8
max_client_conn = 200
"""


@contextmanager
def running_pgbouncer(postgres):
    """Its port; stopped and removed at the end."""
    program, account, port = (
        require("pgbouncer", "/usr/sbin/pgbouncer"),
        unprivileged(),
        free_port(),
    )
    home = Path(tempfile.mkdtemp(prefix="rankwatch-bouncer-"))
    users, config = home / "users", home / "pgbouncer.ini"
    users.write_text(f'"{USER}" "{PASSWORD}"\n')
    config.write_text(_CONFIG.format(server=postgres.port, port=port, users=users))
    if account:
        for path in (home, users, config):
            shutil.chown(path, account)
    with running([program, str(config)], connect_to(port), home, account=account, signal="KILL"):
        yield port


@pytest.fixture
def pooled(postgres_server):
    with running_pgbouncer(postgres_server) as port:
        yield lambda url: make_url(url).set(port=port).render_as_string(hide_password=False)
