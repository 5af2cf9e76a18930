"""A disk of a few megabytes, to be filled or taken away."""

import os
import subprocess
from contextlib import contextmanager

from servers import missing, require


@contextmanager
def small_disk(place, size):
    """Mount it at ``place``, which does not exist yet. This needs root."""
    if os.geteuid() != 0:
        missing("only root may mount a small disk")
    place.mkdir()
    subprocess.run(
        [require("mount"), "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True
    )
    try:
        yield place
    finally:
        subprocess.run([require("umount"), "--lazy", str(place)], check=True)
