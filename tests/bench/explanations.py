"""Whether the sentence on an incident names its kind, segment, share of users and arm: `make bench ARGS=explanations`.

Incidents of `faults`, in shops of their own, each explained on its first day (a slow loss on its tenth) by what eight healthy
days left. Prints what is right and the confusion of kinds; ``--count`` incidents, 200 by default.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from factories import comparison, pull
from faults import Fault, Kind, Shop, draw_faults
from monitor.model import Arm, Explanation, FaultKind, Keep, Memory
from pipeline.canned import ran, users

HEALTHY = 8
GROWN = 9
"""Days after which a slow loss is looked at: 5 % of the users."""

KINDS = {
    Kind.SHARED_LIST: {FaultKind.SHARED_LIST},
    Kind.SLOW_LOSS: {FaultKind.SHARED_LIST},
    Kind.REORDERED: {FaultKind.REORDERED},
    Kind.TOP_SHUFFLED: {FaultKind.REORDERED},
    Kind.TRUNCATED: {FaultKind.CUT_SHORT},
    Kind.STALE: {FaultKind.STALE},
    Kind.MIXED_UP: {FaultKind.MIXED_UP},
    Kind.ITEMS_GONE: {FaultKind.ITEMS_GONE},
    Kind.CATEGORY_GONE: {FaultKind.ITEMS_GONE},
    Kind.ONE_SEGMENT: {FaultKind.REPLACED},
    Kind.NOISE: {FaultKind.NOISE},
    Kind.CANDIDATE_BROKE: {FaultKind.REPLACED},
    Kind.BASELINE_BROKE: {FaultKind.REPLACED},
    Kind.MISSING: {FaultKind.MISSING},
}
"""Kinds that a sentence may tell of each kind of fault."""

_OFF = 0.1
"""By how much of all users a share may be off, and still be right."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """One incident, what was said of it, and what of that is wrong."""

    fault: Fault
    explanation: Explanation
    wrong: tuple[str, ...]


def explain(fault: Fault, shop: Shop) -> Explanation:
    """What the run of the incident says."""
    past = Memory()
    segments = {name: list(values) for name, values in shop.values.items()}
    asked = users(*shop.names, **segments)
    what = comparison(
        k=shop.k, metrics=("extended_tau",), keep_lists=Keep.ALL, rules=(), evidence_users=2, min_paired_share=0.2
    )
    days = range(fault.begins - HEALTHY, fault.begins)
    day = fault.begins + (GROWN if fault.kind is Kind.SLOW_LOSS else 0)
    for each in (*days, day):
        baseline, candidate = (pull(fault.lists(shop, arm, each)) for arm in Arm)
        found = ran(what, baseline, candidate, asked, memory=past)
        assert found.split is not None, found.reason
        past = Memory(splits=(*past.splits, found.split), last_lists=found.lists, former_lists=found.lists)
    assert found.explanation is not None
    return found.explanation


def judge(fault: Fault, shop: Shop, told: Explanation) -> Told:
    """What is wrong about it."""
    finding = told.finding
    if finding is None:
        return Told(fault=fault, explanation=told, wrong=("kind", "segment", "share", "arm"))
    day = fault.begins + (GROWN if fault.kind is Kind.SLOW_LOSS else 0)
    truth = len(fault.concerned(shop, day)) / shop.users
    # Whoever had one of the items is concerned where items are gone, which depends on the model.
    is_share = fault.kind in {Kind.ITEMS_GONE, Kind.CATEGORY_GONE} or abs(finding.share - truth) <= _OFF
    checks = {
        "kind": finding.kind in KINDS[fault.kind],
        "segment": finding.segment == fault.segment,
        "share": is_share,
        "arm": finding.arms == (fault.arm,),
    }
    return Told(fault=fault, explanation=told, wrong=tuple(name for name, is_right in checks.items() if not is_right))


def tell(count: int, *, seed: int = 0) -> Iterator[Told]:
    """So many incidents, each in a shop of its own."""
    for number, fault in enumerate(draw_faults(count, seed=seed, begins=HEALTHY + 1)):
        shop = Shop(seed=seed + number)
        yield judge(fault, shop, explain(fault, shop))


def run() -> Iterator[tuple[str, float, str, float, str]]:
    """The share that is right beside what is promised."""
    told = list(tell(200))
    yield "incidents of 14 kinds told right", 100 * sum(not each.wrong for each in told) / len(told), "least", 95.0, "%"


def main(args: list[str]) -> None:
    """Print what is wrong, and the confusion."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=explanations", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="every sentence")
    asked = parser.parse_args(args)
    told = []
    for each in tell(asked.count, seed=asked.seed):
        told.append(each)
        if asked.verbose or each.wrong:
            fault = each.fault
            truth = f"{fault.kind}, {fault.arm}, {fault.segment} {fault.share:.0%}, seed {fault.seed}"
            sys.stdout.write(f"{truth}\n  {each.explanation.sentence}\n  wrong: {', '.join(each.wrong) or 'nothing'}\n")
    confusion = Counter((each.fault.kind, _kind(each.explanation)) for each in told)
    for kind in Kind:
        row = ", ".join(f"{count} {name}" for (of, name), count in sorted(confusion.items()) if of is kind)
        sys.stdout.write(f"{kind.value:20} {row}\n")
    right = sum(not each.wrong for each in told)
    wrong = Counter(name for each in told for name in each.wrong)
    sys.stdout.write(f"{right} of {len(told)} right; wrong: {dict(wrong)}\n")


def _kind(told: Explanation) -> str:
    return "no clear cause" if told.finding is None else told.finding.kind.value
