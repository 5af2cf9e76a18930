"""Values for tests, each complete, each field open to change."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from monitor.model import Claim, Comparison, CoverageReason, Direction, Pull, RankingTable, Rule, Severity

SLOT = datetime(2024, 1, 8, tzinfo=UTC)


def rule(**changes: Any) -> Rule:
    base = Rule(
        alert="SimilarityLow",
        metric="extended_tau",
        statistic="mean",
        direction=Direction.BELOW,
        threshold=0.35,
        resolve_at=0.35,
        for_runs=2,
        severity=Severity.CRITICAL,
    )
    return replace(base, **changes)


def comparison(**changes: Any) -> Comparison:
    base = Comparison(
        name="home-feed",
        k=10,
        metrics=("extended_tau", "rbo(p=0.9)"),
        rules=(rule(),),
        sample=None,
        seed=0,
        deadline=timedelta(seconds=10),
        min_paired_share=0.5,
        max_segment_values=50,
        evidence_users=3,
        keep_scores=True,
        config_hash="0" * 64,
    )
    return replace(base, **changes)


def claim(**changes: Any) -> Claim:
    base = Claim(
        run_id=1,
        comparison="home-feed",
        slot=SLOT,
        owner="test:1",
        attempt=1,
        started_at=SLOT,
        until=SLOT + timedelta(hours=1),
    )
    return replace(base, **changes)


def rankings(lists: dict[str, list[Any]]) -> RankingTable:
    items = [item for ranking in lists.values() for item in ranking]
    flat = np.array(items, dtype=np.int64) if all(isinstance(item, int) for item in items) else pd.array(items, dtype="str")
    offsets = np.cumsum([0, *map(len, lists.values())], dtype=np.int64)
    return RankingTable(users=pd.Index(list(lists), dtype="str"), offsets=offsets, items=flat)


def pull(lists: dict[str, list[Any]], failures: dict[str, CoverageReason] | None = None) -> Pull:
    return Pull(rankings=rankings(lists), failures=failures or {})
