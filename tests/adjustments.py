"""What every process that runs tests changes in the program and in its libraries."""

import ssl
from functools import cache, partial
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sql
import typer.main
import yaml

from clocks import shift_clock
from monitor.storage import transactions

hypothesis.settings.register_profile(
    "steady", deadline=None, max_examples=50
)  # timing decides no test; each run tries others
hypothesis.settings.load_profile("steady")

shift_clock(pytest.MonkeyPatch())

# The tree of commands is made once, not for each call.
typer.main.get_command = cache(typer.main.get_command)

# Python's own parser of YAML takes ten times as long.
yaml.safe_load = partial(yaml.load, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))

# Loading the authorities of this machine takes longer than most tests, and no test meets a server
# that they signed.
ssl.SSLContext.load_default_certs = lambda *_: None  # type: ignore[method-assign]


class CompiledStatements(dict[Any, Any]):
    """Statements by kind of database, so that each is compiled once, and not once for each test's own database."""

    def get(self, key, default=None):
        return super().get((key[0].driver, *key[1:]), default)

    def __setitem__(self, key, compiled):
        super().__setitem__((key[0].driver, *key[1:]), compiled)


_compiled = CompiledStatements()
sql.Engine._compiled_cache = property(lambda _: _compiled, lambda *_: None)  # type: ignore[assignment]

# No test cuts the power, and PostgreSQL does not wait for the disk in tests either.
transactions._SQLITE_SETTINGS = (*transactions._SQLITE_SETTINGS, "synchronous = OFF")  # type: ignore[assignment]
