"""Which build of rankwatch runs: its version, its revision, and the Python that runs it."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, distribution

UNKNOWN_REVISION = "unknown"


def build_labels(version: str) -> dict[str, str]:
    """The labels of ``build_info``."""
    return {"version": version, "revision": find_revision(), "python_version": platform.python_version()}


def find_revision() -> str:
    """The commit, as the image says in RANKWATCH_REVISION, or as pip noted it when it installed from a repository."""
    if given := os.environ.get("RANKWATCH_REVISION"):
        return given
    try:
        noted = json.loads(distribution("rankwatch").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return UNKNOWN_REVISION
    return str(noted.get("vcs_info", {}).get("commit_id", UNKNOWN_REVISION))
