"""A run is added up from batches of users, and nothing that it finds depends on how many there are."""

import pickle
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.api.extensions import ExtensionArray

from factories import SLOT, changed, comparison, pull, rule
from monitor import summaries
from monitor.model.comparison import Comparison, Keep
from monitor.model.memory import Memory
from monitor.model.rankings import ALL, Arm, CoverageReason, Pull
from monitor.model.runs import EvidenceKind, JoinRequest, MeasuredRun
from monitor.model.statistics import TRAITS, NoiseFloor, Statistic
from monitor.pipeline.pull import Arms, draw_panel, pull_all
from monitor.pipeline.run import _kept_scores
from monitor.pipeline.run_measurement import Measurement, Stopwatch, measure_slot
from monitor.pipeline.run_parts import unpack_part
from monitor.pipeline.score import RunScores
from monitor.ports import JoinedSource, Measurer
from pipeline.canned import Canned, CannedRelevance, CannedWeights, StillClock, arms, users

ASKED = [f"user-{number:03}" for number in range(300)]
EVERYTHING = comparison(
    k=5,
    metrics=("extended_tau", "rbo(p=0.9)", "kendall_distance", "weighted_tau", "ndcg"),
    arm_metrics=(
        "catalogue_coverage",
        "exposure_gini",
        "mean_popularity",
        "novelty",
        "self_churn",
        "score_shift",
        *sorted(TRAITS),
    ),
    rules=(rule(metric="rbo(p=0.9)", statistic="share_below(0.4)"), rule(metric="extended_tau", statistic="p33")),
    noise_floor=NoiseFloor.SERVE,
    keep_lists=True,
    evidence_users=4,
)


def lists_of(seed: int, spell: Any, asked: list[str]) -> Pull:
    """Lists of most users: some missing, some empty, some failed, some short, some with a duplicate, some with ties."""
    rng = np.random.default_rng(seed)
    lists: dict[str, list[Any]] = {}
    failures: dict[str, CoverageReason] = {}
    for user in rng.permutation(asked).tolist():
        kind = rng.random()
        if kind < 0.05:
            failures[user] = CoverageReason.TIMEOUT if kind < 0.03 else CoverageReason.HTTP_ERROR
        elif kind > 0.03:
            count = 0 if kind < 0.1 else 3 if kind < 0.2 else 6
            lists[user] = [spell(int(item)) for item in rng.integers(0, 40, count)]
    answer = pull(lists, failures)
    scores = np.sort(rng.integers(0, 9, len(answer.rankings.items)))[::-1].astype(np.float64)
    notes, versions = dict.fromkeys(failures.values(), "why"), {"v1": len(lists) - seed, "v2": seed}
    return replace(answer, rankings=replace(answer.rankings, scores=scores), notes=notes, versions=versions)


@cache
def world(spell: Any) -> tuple[Arms, Memory]:
    """Sources with all that can be asked of them, and the memory of an earlier run."""
    rng = np.random.default_rng(5)
    country = rng.choice(["UK", "DE", "FR"], len(ASKED), p=[0.7, 0.29, 0.01]).tolist()
    grades = {user: {spell(item): 1.0 + item for item in range(4)} for user in ASKED[::3]}
    asked = arms(
        lists_of(1, spell, ASKED),
        lists_of(2, spell, ASKED),
        users(*ASKED, country=country, device=rng.choice(["tv", "web"], len(ASKED)).tolist()),
        again=Canned(lists_of(3, spell, ASKED)),
        weights=CannedWeights({spell(item): 1.0 + item for item in range(38)}),
        relevance=CannedRelevance({SLOT: grades}),
    )
    first = measure_slot(EVERYTHING, asked, SLOT, Memory(), Stopwatch(StillClock()))
    assert first.run.split is not None
    return asked, Memory(last_lists=first.run.lists, splits=(first.run.split,))


@cache
def measure(batch_users: int, sampled_users: int, spell: Any, floor: NoiseFloor = NoiseFloor.SERVE) -> Measurement:
    plan, (asked, memory), watch = changed(EVERYTHING, noise_floor=floor), world(spell), Stopwatch(StillClock())
    return measure_slot(plan, asked, SLOT, memory, watch, batch_users=batch_users, sampled_users=sampled_users)


def plain(value: Any) -> Any:
    """What can be compared with ``==``: dataclasses as dicts, arrays as lists, NaN as text."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | pd.Index | ExtensionArray):
        return plain(value.tolist())
    if isinstance(value, list | tuple | RunScores):
        return [plain(each) for each in value]
    return "nan" if isinstance(value, float) and np.isnan(value) else value


NOT_FOUND = {"stage_seconds", "pull_seconds", "gap_seconds"}


NUMBERS, TEXTS, NUMBERS_AS_TEXT = int, "item-{}".format, "{}".format


@pytest.mark.parametrize(
    ("parts", "floor", "spell"),
    [(2, NoiseFloor.SERVE, NUMBERS), (7, NoiseFloor.TEMPORAL, TEXTS), (64, NoiseFloor.SERVE, NUMBERS_AS_TEXT)],
)
def test_one_batch_and_many_find_the_same_to_the_last_bit(parts: int, floor: NoiseFloor, spell: Any) -> None:
    whole = measure(len(ASKED), len(ASKED), spell, floor)
    found = measure(-(-len(ASKED) // parts), len(ASKED), spell, floor)

    assert found.left_out == whole.left_out
    assert found.notes == whole.notes
    assert whole.run.models is not None
    for each in fields(MeasuredRun):
        if each.name not in NOT_FOUND:
            assert plain(getattr(found.run, each.name)) == plain(getattr(whole.run, each.name)), each.name


class MeasuredThere:
    """Lists that are pulled, split up and measured batch by batch; the parts come back in pairs, the last ones first."""

    lacks = ()
    unreadable = ()

    def __init__(self, asked: Arms, plan: Comparison) -> None:
        answers = pull_all(plan, asked, draw_panel(plan, asked, SLOT, 9), SLOT, 9)
        self.asked, self._batches = answers.asked, answers.batches

    def read(self, request: JoinRequest) -> AbstractContextManager["MeasuredThere"]:
        return nullcontext(self)

    def measured(self, measurer: Measurer, size: int) -> Iterator[bytes]:
        there = pickle.loads(pickle.dumps(measurer))  # noqa: S301 - as it is shipped
        parts = [there.measure(replace(each, weights=None, relevance=None)) for each in self._batches(size)]
        return (there.merge(parts[start : start + 2]) for start in range(0, len(parts), 2)[::-1])


@pytest.mark.parametrize(
    ("keep", "exact", "spell"), [(Keep.ALL, 10**6, TEXTS), (Keep.NONE, 60, NUMBERS_AS_TEXT), (7, 60, NUMBERS)]
)
def test_parts_that_come_from_elsewhere_add_up_to_the_same(
    keep: Keep | int, exact: int, spell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "EXACT", exact)
    asked, memory = world(spell)
    plan = changed(EVERYTHING, keep_scores=keep, keep_lists=keep, arm_metrics=("exposure_gini", "novelty"))

    def run(joined: JoinedSource | None, parts: int) -> Measurement:
        watch, size = Stopwatch(StillClock()), -(-len(ASKED) // parts)
        return measure_slot(plan, replace(asked, joined=joined), SLOT, memory, watch, batch_users=size, sampled_users=120)

    whole = run(None, 1)
    for parts in (7, 64):  # of seven one comes back alone
        found = run(MeasuredThere(asked, plan), parts)
        assert (found.left_out, found.notes) == (whole.left_out, whole.notes)
        for each in fields(MeasuredRun):
            if each.name not in {*NOT_FOUND, "scores"}:
                assert plain(getattr(found.run, each.name)) == plain(getattr(whole.run, each.name)), each.name
        scores = [_kept_scores(plan, each.run.scores) for each in (found, whole)]
        assert plain(scores[0]) == plain(scores[1])
        # All that came back, not only what is stored of it.
        count = 0 if found.run.scores is None else sum(len(each.users) for each in found.run.scores)
        assert count <= (0 if keep is Keep.NONE else 300 if keep is Keep.ALL else 7 * (parts + 1) // 2)


@pytest.mark.parametrize("data", [b"", b"no part", zlib.compress(b"\0" * 7 + b"\x02[]"), zlib.compress(b"\0" * 99)])
def test_bytes_that_hold_no_part_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack_part(data)


@pytest.mark.parametrize("parts", [1, 7])
def test_what_looks_at_many_users_together_looks_at_a_seeded_sample_and_says_so(parts: int) -> None:
    whole = measure(len(ASKED), len(ASKED), int)
    found = measure(-(-len(ASKED) // parts), 100, int)
    again = measure(50, 100, int)

    assert found.run.summaries == whole.run.summaries == again.run.summaries
    assert found.coverage == whole.coverage == again.coverage
    assert found.run.explanation is not None
    assert found.run.explanation == again.run.explanation
    assert found.run.split is not None
    count = found.run.split.asked
    assert 70 < count < 130
    assert found.run.explanation.sentence.endswith(f"(seen in a sample of {count} of 300 users)")
    assert whole.run.explanation is not None
    assert "sample" not in whole.run.explanation.sentence
    (arm,) = (
        each for each in found.run.arm_scores if (each.segment, each.arm, each.metric) == (ALL, Arm.BASELINE, "exposure_gini")
    )
    assert 50 < arm.n < 130
    worst = [[each.user for each in run.evidence if each.kind is EvidenceKind.WORST] for run in (found.run, whole.run)]
    assert worst[0] == worst[1]
    assert sum(each.kind is EvidenceKind.REPRESENTATIVE for each in found.run.evidence) == 4


def test_statistics_of_rules_are_there_in_every_segment() -> None:
    found = measure(31, 300, int).run.summaries
    for each in found:
        if each.metric == "rbo(p=0.9)":
            assert each.value(str(Statistic.parse("share_below(0.4)"))) is not None, each.segment
