"""Where in a Pushgateway a group of series lies. Pure."""

from __future__ import annotations

import base64
import re

JOB = "rankwatch"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")


def group_path(**labels: str) -> str:
    """Path of the group with these labels beside ``job="rankwatch"``; an empty label is none.

    A value that cannot stand in a path is written in base64, as Pushgateway's README has it.
    """
    parts = (_part(name, value) for name, value in labels.items() if value)
    return "/".join(("/metrics/job", JOB, *parts))


def _part(name: str, value: str) -> str:
    if _PLAIN.fullmatch(value):
        return f"{name}/{value}"
    return f"{name}@base64/{base64.urlsafe_b64encode(value.encode()).decode()}"
