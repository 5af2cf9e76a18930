"""The directory that the demo leaves behind: configuration, users, database, log."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from monitor.demo.servers import BROKEN_COUNTRY, Shop
from monitor.errors import ConfigError
from monitor.files import replace_file

DEFAULT_DIRECTORY = Path("rankwatch-demo")
_MARKER = ".made-by-rankwatch-demo"


class Workspace:
    """Paths inside the demo's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "rankwatch.yaml"
        self.database = directory / "rankwatch.db"
        self.users = directory / "users.csv"
        self.log = directory / "rankwatch.log"


@contextmanager
def open_workspace(workspace: Workspace) -> Iterator[None]:
    """Make the directory, or empty one that an earlier demo made, and hold it while the block lasts.

    ConfigError when it holds anything else, when another demo is in it, or when it cannot be written.
    """
    directory = workspace.directory
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
        # By name what an earlier demo wrote: whatever else was put there stays.
        for path in (workspace.config, *directory.glob(f"{workspace.database.name}*"), workspace.users, workspace.log):
            path.unlink(missing_ok=True)
        (directory / ".gitignore").write_text("*\n", encoding="utf-8")
        yield


def write_users(workspace: Workspace, shop: Shop) -> None:
    """Write the users file."""
    users = pd.DataFrame({"user_id": shop.ids, "activity": shop.activities, "country": shop.countries})
    # At once: who watches from elsewhere may be reading already.
    replace_file(workspace.users, users.to_csv(index=False).encode())


DEMO_COMPARISON = "home-feed"
DEMO_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
EXPECTED_ALERTS = frozenset({("SimilarityLow", f"country={BROKEN_COUNTRY}"), ("ManyUsersApart", "all")})
"""The alerts, each with its segment, that the fault should cause: these and no others."""

_TEXT = """\
# Written by `rankwatch demo`. While the demo runs, its recommenders answer at the addresses below.
database: sqlite:///rankwatch.db          # beside this file
listen: 127.0.0.1:0                       # any port that is free: /metrics, /-/healthy, /-/ready

comparisons:
  - name: {comparison}
    every: {every}                             # a demo's pace; real ones say 15m or 1h
    k: 10

    baseline:                             # the model in use
      http:
        url: "{url}/baseline/api/recommend/{{user}}"
        items: "@"                        # the answer itself is the list of items, best first
    candidate:                            # the model on trial
      http:
        url: "{url}/candidate/api/recommend/{{user}}"
        items: "@"

    users:
      file: {{path: users.csv, user: user_id}}
      segments: [country, activity]       # columns of users.csv
      sample: 300                         # how many are asked in each run

    metrics: {metrics}

    rules:
      - alert: SimilarityLow              # one segment is enough: an average over everyone hides it
        metric: rbo(p=0.9)
        statistic: mean
        segments: each
        below: 0.4
        resolve_above: 0.5
        for: 2                            # runs in a row
        min_users: 30
        severity: critical
      - alert: ManyUsersApart             # the share of users whose lists have next to nothing in common
        metric: rbo(p=0.9)
        statistic: share_below(0.3)
        above: 0.1
        resolve_below: 0.05
        for: 2
        min_users: 100
        severity: warning

receivers:
  - webhook: {{url: "{url}/on-call/page"}}
"""


def write_configuration(workspace: Workspace, *, url: str, every: str) -> None:
    """Write the daemon's configuration, for recommenders and on-call under ``url``."""
    text = _TEXT.format(url=url, comparison=DEMO_COMPARISON, every=every, metrics=json.dumps(DEMO_METRICS))
    workspace.config.write_text(text, encoding="utf-8")
