"""The directory that the demo leaves behind to be looked at: configuration, users, database, log."""

from __future__ import annotations

import csv
import fcntl
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from monitor.demo.world import History
from monitor.errors import ConfigError

DEFAULT = Path("rankwatch-demo")
_PREFERRED_PORT = 9108
_MARKER = ".made-by-rankwatch-demo"


@dataclass(frozen=True, slots=True)
class Place:
    """Paths inside the demo's directory."""

    directory: Path

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.directory / "rankwatch.yaml"

    @property
    def database(self) -> Path:
        """The SQLite database."""
        return self.directory / "rankwatch.db"

    @property
    def users(self) -> Path:
        """The users file, rewritten every simulated day."""
        return self.directory / "users.csv"

    @property
    def secret(self) -> Path:
        """The webhook's secret."""
        return self.directory / "webhook-secret"

    @property
    def log(self) -> Path:
        """What the daemon logs."""
        return self.directory / "rankwatch.log"


@contextmanager
def occupy(directory: Path) -> Iterator[Place]:
    """Make the directory, or empty one that an earlier demo made, and hold it while the block lasts.

    ConfigError when it holds anything else, when another demo is in it, or when it cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        marker = directory / _MARKER
        if not marker.exists() and any(directory.iterdir()):
            msg = f"{directory} holds files that the demo did not write: name an empty or new one with --dir"
            raise ConfigError(msg)
        lock = marker.open("a", encoding="utf-8")
    except OSError as error:
        msg = f"cannot write to {directory}: {error.strerror}; name another directory with --dir"
        raise ConfigError(msg) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            msg = f"another demo is running in {directory}: stop it, or name another directory with --dir"
            raise ConfigError(msg) from None
        yield _emptied(Place(directory))


def write_secret(place: Place) -> str:
    """Make a webhook secret that only this user can read."""
    secret = secrets.token_hex(32)
    place.secret.touch(mode=0o600)
    place.secret.write_text(secret + "\n", encoding="utf-8")
    return secret


def write_users(place: Place, history: History) -> None:
    """Replace the users file at once, so that a run never reads half of it."""
    rows = zip(history.users.ids, history.activities, history.users.countries.tolist(), strict=True)
    fresh = place.users.with_suffix(".new")
    with fresh.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("user_id", "activity", "country"))
        writer.writerows(rows)
    fresh.replace(place.users)


def choose_port() -> int:
    """The usual port, or a free one where that is taken."""
    for port in (_PREFERRED_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    msg = "no free port on 127.0.0.1 for /metrics"
    raise ConfigError(msg)


def _emptied(place: Place) -> Place:
    """Remove what an earlier demo wrote, by name: whatever else was put there stays."""
    sidecars = [place.database.with_name(place.database.name + end) for end in ("-wal", "-shm", "-journal")]
    for path in (place.config, place.database, *sidecars, place.users, place.secret, place.log):
        path.unlink(missing_ok=True)
    (place.directory / ".gitignore").write_text("*\n", encoding="utf-8")
    return place
