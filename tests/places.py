"""Where the files of the project are."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def read_yaml(path):
    """What a file of the project says."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
