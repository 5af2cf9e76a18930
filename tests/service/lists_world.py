"""A world in one folder: lists in files that a test may change, and a configuration over them."""

import json
from collections.abc import Sequence
from pathlib import Path

SIMILAR = [1, 2, 3, 4, 5]
APART = [91, 92, 93, 94, 95]
USERS = 60


def write_lists(path: Path, items: Sequence[int | str]) -> None:
    """Give every user this list, whole or not at all."""
    lines = (json.dumps({"user_id": f"u{i}", "items": list(items)}) for i in range(USERS))
    draft = path.with_suffix(".draft")
    draft.write_text("\n".join(lines) + "\n")
    draft.replace(path)


def write_world(
    folder: Path,
    url: str,
    *,
    every: str = "1s",
    receivers: str = "",
    names: Sequence[str] = ("feed",),
) -> Path:
    write_lists(folder / "baseline.jsonl", SIMILAR)
    if not (folder / "candidate.jsonl").exists():
        write_lists(folder / "candidate.jsonl", SIMILAR)
    return write_config(folder, url, every=every, receivers=receivers, names=names)


def write_config(
    folder: Path, url: str, *, every: str, receivers: str = "", names: Sequence[str]
) -> Path:
    comparisons = "".join(
        f"""
  - name: {name}
    every: {every}
    k: 5
    baseline: {{file: {{path: baseline.jsonl, user: user_id, items: items}}}}
    candidate: {{file: {{path: candidate.jsonl, user: user_id, items: items}}}}
    users: {{all: true}}
    metrics: [extended_tau, rbo]
    rules:
      - {{alert: SimilarityLow, metric: extended_tau, below: 0.35, for: 2, severity: critical}}
"""
        for name in names
    )
    path = folder / "rankwatch.yaml"
    path.write_text(f"database: {url}\nlisten: 127.0.0.1:0\ncomparisons:{comparisons}{receivers}")
    return path
