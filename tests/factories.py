"""Complete values for tests. Arguments change their fields."""

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from monitor.alerts.rule_evaluation import evaluate_rules
from monitor.model.alerts import AlertState, Expectation, Outcome, State, Transition
from monitor.model.memory import Memory
from monitor.model.rankings import (
    Arm,
    CoverageReason,
    CoverageRow,
    ItemWeights,
    Panel,
    Pull,
    RankingTable,
    RelevanceTable,
)
from monitor.model.rules import (
    Comparison,
    CoverageRule,
    Direction,
    FixedLimit,
    JudgingPlan,
    Keep,
    LearnedLimit,
    MeasuringPlan,
    RuleKind,
    Severity,
    SimilarityRule,
)
from monitor.model.run_reasons import LossCause, RunReason, RunReasonKind
from monitor.model.runs import ArmScore, Claim, Histogram, MeasuredRun, RunStatus, Summary
from monitor.model.statistics import CoverageShare, Statistic
from monitor.pipeline.expectations import compute_expectations

SLOT = datetime(2024, 1, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass
class HeldClock:
    """Both clocks stop until a test moves them."""

    at: datetime = SLOT
    seconds: float = 0.0

    def now(self):
        return self.at

    def monotonic(self):
        return self.seconds

    def pass_by(self, seconds):
        self.at += timedelta(seconds=seconds)
        self.seconds += seconds


def take_limit(changes, **usual):
    """Remove the parts of a limit from the changes: ``direction``, ``threshold``, ``resolve_at``, ``learned``."""
    parts = {
        "direction": Direction.BELOW,
        "threshold": 0.35,
        "resolve_at": None,
        "learned": None,
    } | usual
    direction, value, resolve_at, learned = (
        changes.pop(name, default) for name, default in parts.items()
    )
    if learned is not None:
        return LearnedLimit(learning=learned, direction=direction, value=value)
    return FixedLimit(
        direction=direction, value=value, resolve_at=value if resolve_at is None else resolve_at
    )


def rule(**changes):
    """A rule on similarity.

    The changes may contain parts of the limit, and the name of the statistic.
    """
    base = SimilarityRule(
        alert="SimilarityLow",
        metric="extended_tau",
        statistic=Statistic.parse(changes.pop("statistic", "mean")),
        limit=take_limit(changes),
        for_runs=2,
        severity=Severity.CRITICAL,
    )
    return replace(base, **changes)


def coverage_rule(share, **changes):
    limit = take_limit(changes, direction=Direction.ABOVE, threshold=1.0)
    return replace(
        CoverageRule(alert="MissingLists", share=CoverageShare.parse(share), limit=limit), **changes
    )


def lost_lists(text, users, asked):
    """The candidate returned no list for these users, because of one cause."""
    cause = LossCause(reason=CoverageReason.SERVER_ERROR, users=users, text=text)
    kind = RunReasonKind.LOST_LISTS
    return RunReason(kind=kind, arm=Arm.CANDIDATE, users=users, asked=asked, causes=(cause,))


def comparison(**changes):
    """A comparison. The changes may contain fields of its plans."""
    measuring = MeasuringPlan(
        k=10,
        metrics=("extended_tau", "rbo(p=0.9)"),
        sample=None,
        seed=0,
        max_segment_values=50,
        deadline=timedelta(minutes=10),
        keep_scores=Keep.ALL,
        evidence_users=3,
    )
    judging = JudgingPlan(rules=(rule(),), min_paired_share=0.5)
    base = Comparison(name="home-feed", config_hash="0" * 64, measuring=measuring, judging=judging)
    return changed(base, **changes)


def changed(what, **changes):
    """The comparison with other values of these fields, or of these fields of its plans."""
    own = {name: value for name, value in changes.items() if name in ("name", "config_hash")}
    judging = {
        each.name: changes[each.name] for each in fields(JudgingPlan) if each.name in changes
    }
    measuring = {
        name: value for name, value in changes.items() if name not in own and name not in judging
    }
    return replace(
        what,
        **own,
        measuring=replace(what.measuring, **measuring),
        judging=replace(what.judging, **judging),
    )


claim = partial(
    Claim,
    run_id=1,
    comparison="home-feed",
    slot=SLOT,
    owner="test:1",
    attempt=1,
    started_at=SLOT,
    until=SLOT + timedelta(hours=1),
)


def panel(*users, **segments):
    """A panel of these users, with segments."""
    named = {name: np.array(rows, dtype=np.intp) for name, rows in segments.items()}
    return Panel(
        users=pd.Index(users, dtype="str"),
        segments={"all": np.arange(len(users), dtype=np.intp)} | named,
    )


def rankings(lists):
    items = [item for ranking in lists.values() for item in ranking]
    flat = (
        np.array(items, dtype=np.int64)
        if all(isinstance(item, int) for item in items)
        else pd.array(items, dtype="str")
    )
    offsets = np.cumsum([0, *map(len, lists.values())], dtype=np.int64)
    return RankingTable(users=pd.Index(list(lists), dtype="str"), offsets=offsets, items=flat)


def weights(known):
    """The weights of these items."""
    values = np.array(list(known.values()), dtype=np.float64)
    return ItemWeights(items=rankings({"": list(known)}).items, weights=values)


def relevance(known):
    """The grades of each user's items."""
    table = rankings({user: list(grades) for user, grades in known.items()})
    values = [grade for grades in known.values() for grade in grades.values()]
    return RelevanceTable(
        users=table.users,
        offsets=table.offsets,
        items=table.items,
        grades=np.array(values, dtype=np.float64),
    )


def pull(lists, failures=None):
    """The lists of these users. In a text each item is a digit: "a:12 b:31"."""
    if isinstance(lists, str):
        pairs = (each.split(":") for each in lists.split())
        lists = {user: [*map(int, items)] for user, items in pairs}
    return Pull(rankings=rankings(lists), failures=failures or {})


def coverage_row(asked, paired=None, segment="all", reasons=None):
    """Coverage of one segment. All users are paired if ``paired`` does not say otherwise."""
    return CoverageRow(
        segment=segment,
        asked=asked,
        paired=asked if paired is None else paired,
        users_by_reason=reasons or {},
    )


summary = partial(
    Summary,
    segment="all",
    metric="extended_tau",
    n=1874,
    n_undefined=0,
    mean=0.512,
    standard_error=0.01,
    statistics={"p05": -0.2, "share_below(0)": 0.11},
    histogram=Histogram(low=-1.0, high=1.0, counts=(0, 1874)),
)


arm_score = partial(ArmScore, segment="all", arm=Arm.CANDIDATE)
expectation = partial(Expectation, alert="SimilarityLow", segment="all", runs=9, expected=0.5)

state = partial(
    AlertState,
    comparison="home-feed",
    alert="SimilarityLow",
    segment="all",
    state=State.QUIET,
    since=SLOT,
    streak=0,
    judged_slot=SLOT,
    outcome=Outcome.OK,
    reason="mean of extended_tau is 0.512",
    value=0.512,
    users=1874,
    threshold=0.35,
    severity=Severity.CRITICAL,
    dedup_key=None,
)
"""A quiet alert."""


def transition(**changes):
    """The start of an alert in `SLOT`."""
    base = Transition(
        comparison="home-feed",
        alert="SimilarityLow",
        segment="all",
        slot=SLOT,
        at=SLOT + timedelta(seconds=5),
        from_state=State.PENDING,
        to_state=State.FIRING,
        reason="mean of extended_tau is 0.254 over 1,874 users, below 0.35",
        value=0.254,
        direction=Direction.BELOW,
        threshold=0.35,
        users=1874,
        kind=RuleKind.SIMILARITY,
        metric="extended_tau",
        statistic="mean",
        severity=Severity.CRITICAL,
        since=SLOT - timedelta(days=1),
        dedup_key="0123456789abcdef0123456789abcdef",
        runbook_url="https://runbooks.test/similarity",
        labels={"team": "ranking"},
    )
    metric = changes.get("metric", base.metric)
    kind = RuleKind(metric) if metric in set(RuleKind) else RuleKind.SIMILARITY
    return replace(base, **{"kind": kind} | changes)


def measured_run(slot=SLOT, *, status=RunStatus.OK, run_reason=None, **measured):
    found: Any = {
        name: tuple(value) if isinstance(value, list) else value for name, value in measured.items()
    }
    if run_reason is not None:
        found["reasons"] = (RunReason(kind=RunReasonKind.ERROR, text=run_reason),)
    return MeasuredRun(slot=slot, status=status, **found)


def evaluate(what, *, slot=SLOT, at=None, states=(), expectations=(), standstills=(), **found):
    """Evaluate all rules at the time of the slot, or at ``at``."""
    memory = Memory(states=tuple(states))
    return evaluate_rules(
        what,
        measured_run(slot, **found),
        memory,
        at or slot,
        expectations=expectations,
        standstills=standstills,
    )


def expect(what, slot, summaries, past, states=(), **found):
    return compute_expectations(
        what, measured_run(slot, summaries=summaries, **found), past, states
    )
