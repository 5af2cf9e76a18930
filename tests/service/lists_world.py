"""A world in one folder: lists in files that a test may change, and a configuration over them."""

import json

SIMILAR = [1, 2, 3, 4, 5]
APART = [91, 92, 93, 94, 95]
USERS = 60


def write_lists(path, items):
    """Give every user this list, whole or not at all."""
    lines = (json.dumps({"user_id": f"u{i}", "items": list(items)}) for i in range(USERS))
    draft = path.with_suffix(".draft")
    draft.write_text("\n".join(lines) + "\n")
    draft.replace(path)


def write_world(folder, url, **options):
    write_lists(folder / "baseline.jsonl", SIMILAR)
    if not (folder / "candidate.jsonl").exists():
        write_lists(folder / "candidate.jsonl", SIMILAR)
    return write_config(folder, url, **options)


def write_config(  # noqa: PLR0913 - the choices of a test
    folder,
    url,
    *,
    every="1d",
    receivers="",
    names=("feed",),
    streak=2,
    candidate="{file: {path: candidate.jsonl, user: user_id, items: items}}",
):
    comparisons = "".join(
        f"""
  - name: {name}
    every: {every}
    k: 5
    baseline: {{file: {{path: baseline.jsonl, user: user_id, items: items}}}}
    candidate: {candidate}
    users: {{all: true}}
    metrics: [extended_tau, rbo]
    rules:
      - {{alert: SimilarityLow, metric: extended_tau, below: 0.35, for: {streak}, severity: critical}}
"""
        for name in names
    )
    path = folder / "rankwatch.yaml"
    path.write_text(f"database: {url}\nlisten: 127.0.0.1:0\ncomparisons:{comparisons}{receivers}")
    return path
