"""Whether what reaches receivers names an incident's kind, segment, share of users and arm: `make bench ARGS=explanations`.

Incidents of `faults`, in shops of their own, each explained on its first day (a slow loss on its tenth) by what eight healthy
days left. Prints what is right and the confusion of kinds; ``--count`` incidents, 200 by default.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from factories import comparison, pull
from faults import Fault, Kind, Shop, draw_faults
from messages import message, start
from monitor.attribution.sentences import write_alert_text
from monitor.model.comparison import Keep
from monitor.model.explanation import Explanation, FaultKind
from monitor.model.memory import Memory
from monitor.model.notifications import Briefing
from monitor.model.rankings import ALL, Arm
from monitor.model.runs import RunResult
from monitor.receivers.message.content import content_of
from monitor.receivers.message.plain_text import plain_text
from monitor.receivers.pagerduty import pagerduty_events
from monitor.receivers.slack import slack_body
from monitor.receivers.webhook import webhook_body
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

_URL = "http://rankwatch.test"
_OFF = 0.1
"""By how much of all users a share may be off, and still be right."""


_WORDS = {
    FaultKind.MISSING: "got no list from",
    FaultKind.SHARED_LIST: "(?:all get the same list|get one of [0-9]+ lists) from",
    FaultKind.CUT_SHORT: "get shorter lists from",
    FaultKind.STALE: "get the same list from the [a-z]+ as in the last run",
    FaultKind.ITEMS_GONE: "had items that nobody gets from",
    FaultKind.MIXED_UP: "get lists from the [a-z]+ that are those of other users",
    FaultKind.NOISE: "get lists from the [a-z]+ that look random",
    FaultKind.REPLACED: "are shown other items by",
    FaultKind.REORDERED: "get the same (?:first three )?items from the [a-z]+, but in another order",
}
"""By what a reader knows the kind."""
_SENTENCE = re.compile(
    r"users \((?P<share>[0-9.]+) %\)(?:, (?:mostly in|exactly those of) (?P<segment>.+?)(?: \([0-9.]+ % of its users\))?,)? "
    r"(?P<what>.*?(?:from|by) the (?P<arm>baseline|candidate)(?! and)[^.]*)"
)


@dataclass(frozen=True, kw_only=True)
class Read:
    """What a message tells its reader of an incident."""

    kind: FaultKind
    segment: str
    share: float
    arm: str


@dataclass(frozen=True, kw_only=True)
class Told:
    """One incident, what was said of it, what readers of the messages take from that, and what of it is wrong."""

    fault: Fault
    sentence: str
    kind: FaultKind | None
    wrong: tuple[str, ...]


def write_messages(explanation: Explanation) -> dict[str, str]:
    """The text of a page about it, by receiver."""
    why = write_alert_text(explanation, metric=explanation.metric, segment=ALL)
    sent = message(start(explanation=why), briefing=Briefing(explanation=explanation))
    content = content_of(sent, _URL)
    return {
        "webhook": json.dumps(webhook_body(sent, receiver="hook", external_url=_URL)),
        "slack": json.dumps(slack_body(content)),
        "pagerduty": json.dumps(pagerduty_events(sent, "key", _URL)),
        "email": plain_text(content),
    }


def read(text: str) -> Read | None:
    """What is told of a fault; None where it is none."""
    found = _SENTENCE.search(text)
    kinds = [] if found is None else [kind for kind, words in _WORDS.items() if re.search(words, found["what"])]
    if found is None or not kinds:
        return None
    return Read(kind=kinds[0], segment=found["segment"] or ALL, share=float(found["share"]) / 100, arm=found["arm"])


def remember(shop: Shop, begins: int) -> Memory:
    """What the healthy days before leave."""
    healthy, past = Fault(kind=Kind.NOISE, begins=begins), Memory()
    for day in range(begins - HEALTHY, begins):
        found = measure(healthy, shop, day, past)
        assert found.split is not None, found.reason
        past = Memory(splits=(*past.splits, found.split), last_lists=found.lists, former_lists=found.lists)
    return past


def measure(fault: Fault, shop: Shop, day: int, past: Memory) -> RunResult:
    """The run of that day."""
    what = comparison(
        k=shop.k, metrics=("extended_tau",), keep_lists=Keep.ALL, rules=(), evidence_users=2, min_paired_share=0.2
    )
    segments = {name: list(values) for name, values in shop.values.items()}
    baseline, candidate = (pull(fault.lists(shop, arm, day)) for arm in Arm)
    return ran(what, baseline, candidate, users(*shop.names, **segments), memory=past)


def explain(fault: Fault, shop: Shop, past: Memory) -> Explanation:
    """What the run of the incident says."""
    found = measure(fault, shop, looked_at(fault), past).explanation
    assert found is not None
    return found


def looked_at(fault: Fault) -> int:
    """The day that is explained."""
    return fault.begins + (GROWN if fault.kind is Kind.SLOW_LOSS else 0)


def judge(fault: Fault, shop: Shop, explanation: Explanation) -> Told:
    """What is wrong about it in any of the messages."""
    seen = {name: read(text) for name, text in write_messages(explanation).items()}
    wrong = {what for each in seen.values() for what in _find_wrong(fault, shop, each)}
    kinds = {None if each is None else each.kind for each in seen.values()}
    kind = kinds.pop() if len(kinds) == 1 else None
    return Told(fault=fault, sentence=explanation.sentence, kind=kind, wrong=tuple(sorted(wrong)))


def _find_wrong(fault: Fault, shop: Shop, found: Read | None) -> list[str]:
    if found is None:
        return ["kind", "segment", "share", "arm"]
    truth = len(fault.concerned(shop, looked_at(fault))) / shop.users
    checks = {
        "kind": found.kind in KINDS[fault.kind],
        "segment": found.segment == fault.segment,
        # Whoever had one of the items is concerned where items are gone, which depends on the model.
        "share": fault.kind in {Kind.ITEMS_GONE, Kind.CATEGORY_GONE} or abs(found.share - truth) <= _OFF,
        "arm": found.arm == fault.arm,
    }
    return [name for name, is_right in checks.items() if not is_right]


def tell(count: int, *, seed: int = 0) -> Iterator[Told]:
    """So many incidents, each in a shop of its own."""
    for number, fault in enumerate(draw_faults(count, seed=seed, begins=HEALTHY + 1)):
        shop = Shop(seed=seed + number)
        yield judge(fault, shop, explain(fault, shop, remember(shop, fault.begins)))


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
            sys.stdout.write(f"{truth}\n  {each.sentence}\n  wrong: {', '.join(each.wrong) or 'nothing'}\n")
    confusion = Counter((each.fault.kind, each.kind or "no clear cause") for each in told)
    for kind in Kind:
        row = ", ".join(f"{count} {name}" for (of, name), count in sorted(confusion.items()) if of is kind)
        sys.stdout.write(f"{kind.value:20} {row}\n")
    right = sum(not each.wrong for each in told)
    wrong = Counter(name for each in told for name in each.wrong)
    sys.stdout.write(f"{right} of {len(told)} right; wrong: {dict(wrong)}\n")
