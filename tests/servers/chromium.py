"""Chromium without a screen: what it makes of a file, and what its console says."""

import subprocess
from pathlib import Path

from servers import require

_QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND")


def open_file(path: Path, home: Path) -> tuple[str, list[str]]:
    """The document after its scripts ran, as markup, and the console's lines; no host can be reached."""
    program = require("chromium", "chromium-browser", "google-chrome")
    command = [program, *_QUIET, f"--user-data-dir={home}", "--enable-logging=stderr", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
