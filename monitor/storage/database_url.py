"""Database URLs: parsing them, and naming the database without its secrets."""

from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from monitor.errors import ConfigError
from monitor.redaction import require_whole_password

_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_FORMS = "use sqlite:///path/to/file.db or postgresql://user:password@host/database"


def parse_url(url: SecretStr | str) -> URL:
    """Read a database's URL.

    ConfigError when it names none that can be used. The message never shows the URL.
    """
    text = url.get_secret_value() if isinstance(url, SecretStr) else url
    try:
        parsed = make_url(text)
        require_whole_password(parsed)
    except (ArgumentError, ValueError):
        raise ConfigError(
            (
                f"database: not a database URL: {_FORMS}; write special characters of the password "
                "as %XX"
            )
        ) from None
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise ConfigError(
            f"database: {parsed.drivername!r} is not a database that rankwatch knows: {_FORMS}"
        )
    if driver.startswith("sqlite") and file_of(parsed) is None:
        msg = (
            "database: a SQLite database in memory would be lost with each connection: name a "
            "file, sqlite:///rankwatch.db"
        )
        raise ConfigError(msg)
    return parsed.set(drivername=driver)


def absolute_url(url: SecretStr, base: Path) -> SecretStr:
    """The URL, with the file of a SQLite database at its place below ``base`` where its path is relative; see `parse_url`."""
    parsed = parse_url(url)
    file = file_of(parsed)
    if file is None:
        return url
    place = parsed.set(drivername="sqlite", database=str(base / file.expanduser()))
    return SecretStr(place.render_as_string(hide_password=False))


def file_of(url: URL) -> Path | None:
    """The file of a SQLite database; None where there is none."""
    is_file = url.drivername.startswith("sqlite") and url.database and url.database != ":memory:"
    return (
        Path(url.database)
        if is_file and url.database and not url.database.startswith("file:")
        else None
    )


def describe(url: URL) -> str:
    """The database as messages name it: its file, or host, port and database name."""
    if (file := file_of(url)) is not None:
        return f"SQLite database {file}"
    place = url.host or url.query.get("host") or "the local socket"
    return f"PostgreSQL database {url.database or '(default)'} at {place}:{url.port or 5432}"
