"""MariaDB in a folder of its own on a random loopback port, with one empty database, read through PyMySQL."""

import subprocess
import tempfile
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

import sqlalchemy as sa

from servers import connect_to, free_port, require, running

PASSWORD = "canary-maria-2c"  # noqa: S105 - of a server that lives as long as a test


@contextmanager
def running_mariadb():
    """URL of the database for an account that may do everything with it."""
    program, port = require("mariadbd", "/usr/sbin/mariadbd"), free_port()
    home = Path(tempfile.mkdtemp(prefix="rankwatch-mariadb-"))
    own = (
        f"--no-defaults --datadir={home / 'data'} --user={getuser()} --skip-log-bin "
        "--innodb-flush-log-at-trx-commit=0"
    ).split()
    made = ["--skip-test-db", "--auth-root-authentication-method=normal"]
    subprocess.run([require("mariadb-install-db"), *own, *made], check=True, capture_output=True)
    ports = (
        f"--port={port} --bind-address=127.0.0.1 --socket={home / 'socket'} "
        f"--pid-file={home / 'pid'}"
    ).split()
    with running([program, *own, *ports], connect_to(port), home):
        engine = sa.create_engine(
            f"mysql+pymysql://root@/?unix_socket={home / 'socket'}", isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as connection:
            connection.exec_driver_sql("CREATE DATABASE lists")
            connection.exec_driver_sql(
                f"GRANT ALL ON lists.* TO reader@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'"
            )
        engine.dispose()
        yield f"mysql+pymysql://reader:{PASSWORD}@127.0.0.1:{port}/lists"
