"""Parses the URLs of databases, and names a database in messages without its secrets."""

from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from monitor.boundary.redaction import require_encoded_login
from monitor.model.errors import ConfigError

_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_FORMS = "use sqlite:///path/to/file.db or postgresql://user:password@host/database"


def parse_url(url: SecretStr | str) -> URL:
    """Parse a database's URL.

    Raises ConfigError if rankwatch cannot use the URL. The message does not show the URL.
    """
    text = url.get_secret_value() if isinstance(url, SecretStr) else url
    try:
        require_encoded_login(text)
    except ValueError as error:
        raise ConfigError(f"database: {error}") from None
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError(
            f"database: not a database URL: {_FORMS}; percent-encode the password"
        ) from None
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise ConfigError(
            f"database: {parsed.drivername!r} is not a database that rankwatch supports: {_FORMS}"
        )
    if driver.startswith("sqlite") and file_of(parsed) is None:
        raise ConfigError(
            "database: a SQLite database in memory would be lost with each connection: name a "
            "file, sqlite:///rankwatch.db"
        )
    return parsed.set(drivername=driver)


def absolute_url(url: SecretStr, base: Path) -> SecretStr:
    """Check the URL with `parse_url`, and make the path of a SQLite file absolute.

    A relative path starts at ``base``.
    """
    parsed = parse_url(url)
    file = file_of(parsed)
    if file is None:
        return url
    absolute = parsed.set(drivername="sqlite", database=str(base / file.expanduser()))
    return SecretStr(absolute.render_as_string(hide_password=False))


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database. Return None for PostgreSQL or a database in memory."""
    path = url.database
    if not url.drivername.startswith("sqlite") or not path or path == ":memory:":
        return None
    # SQLite reads ``file:`` as a URI, which may name a database in memory.
    return None if path.startswith("file:") else Path(path)


def describe_url(url: URL) -> str:
    """Return the name of the database for messages: its file, or its name, host and port.

    The name contains no secrets.
    """
    file = file_of(url)
    if file is not None:
        return f"SQLite database {file}"
    host = url.host or url.query.get("host") or "the local socket"
    return f"PostgreSQL database {url.database or '(default)'} at {host}:{url.port or 5432}"
