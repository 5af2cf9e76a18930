"""A run is added up from batches of users, and nothing that it finds depends on how many there are."""

import pickle
import zlib
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from pandas.api.extensions import ExtensionArray

from factories import SLOT, changed, comparison, pull, rule
from monitor.measures.summaries import SummaryAccumulator
from monitor.model.errors import SourceError, UserDataError
from monitor.model.memory import Memory
from monitor.model.rankings import CoverageReason
from monitor.model.rules import Keep
from monitor.model.runs import EvidenceKind, MeasuredRun
from monitor.model.statistics import MEASURED_TRAITS, NoiseFloor
from monitor.pipeline.pseudonyms import HiddenRelevance, Pseudonyms
from monitor.pipeline.pull import draw_panel, pull_all
from monitor.pipeline.run_measurement import measure_slot
from monitor.pipeline.run_parts import unpack_part
from monitor.pipeline.run_scores import RunScores
from monitor.pipeline.stopwatch import Stopwatch
from monitor.sources import SampleOptions
from pipeline.canned import Canned, CannedRelevance, CannedWeights, StillClock, arms, users

ASKED = [f"user-{number:03}" for number in range(300)]
EVERYTHING = comparison(
    k=5,
    metrics=("extended_tau", "rbo(p=0.9)", "kendall_distance", "weighted_tau", "ndcg"),
    arm_metrics=(
        *[
            "catalogue_coverage",
            "exposure_gini",
            "mean_popularity",
            "novelty",
            "self_churn",
            "score_shift",
        ],
        *sorted(MEASURED_TRAITS),
    ),
    rules=(
        rule(metric="rbo(p=0.9)", statistic="share_below(0.4)"),
        rule(metric="extended_tau", statistic="p33"),
    ),
    noise_floor=NoiseFloor.SERVE,
    keep_lists=True,
    evidence_users=4,
)


def lists_of(seed, spell):
    """Lists of most users: some missing, some empty, some failed, some short, some with a duplicate, some with ties."""
    rng = np.random.default_rng(seed)
    lists = {}
    failures = {}
    for user in rng.permutation(ASKED).tolist():
        kind = rng.random()
        if kind < 0.05:
            failures[user] = CoverageReason.TIMEOUT if kind < 0.03 else CoverageReason.HTTP_ERROR
        elif kind > 0.03:
            count = 0 if kind < 0.1 else 3 if kind < 0.2 else 6
            lists[user] = [spell(int(item)) for item in rng.integers(0, 40, count)]
    answer = pull(lists, failures)
    scores = np.sort(rng.integers(0, 9, len(answer.rankings.items)))[::-1].astype(np.float64)
    notes = dict.fromkeys(failures.values(), "why")
    versions = {"v1": len(lists) - seed, "v2": seed}
    return replace(
        answer, rankings=replace(answer.rankings, scores=scores), notes=notes, versions=versions
    )


@cache
def world(spell):
    """Sources with all that can be asked of them, and the memory of an earlier run."""
    rng = np.random.default_rng(5)
    country = rng.choice(["UK", "DE", "FR"], len(ASKED), p=[0.7, 0.29, 0.01]).tolist()
    grades = {user: {spell(item): 1.0 + item for item in range(4)} for user in ASKED[::3]}
    asked = arms(
        lists_of(1, spell),
        lists_of(2, spell),
        users(*ASKED, country=country, device=rng.choice(["tv", "web"], len(ASKED)).tolist()),
        second_baseline=Canned(lists_of(3, spell)),
        weights=CannedWeights({spell(item): 1.0 + item for item in range(38)}),
        relevance=CannedRelevance({SLOT: grades}),
    )
    first = measured(asked, Memory())
    return asked, Memory(last_lists=first.run.lists, splits=(first.run.split,))


@cache
def measure(batch_users, subset_users, spell, floor=NoiseFloor.SERVE):
    asked, memory = world(spell)
    sizes = {"batch_users": batch_users, "subset_users": subset_users}
    return measured(asked, memory, sizes, noise_floor=floor)


def measured(asked, memory, sizes=None, **changes):
    plan = changed(EVERYTHING, **changes)
    return measure_slot(plan, asked, SLOT, memory, Stopwatch(StillClock()), **(sizes or {}))


def plain(value):
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


NOT_FOUND = {"stage_seconds", "pull_seconds", "gap_s"}


def require_same(found, whole, *but):
    assert found.left_out == whole.left_out
    assert found.notes == whole.notes
    for each in fields(MeasuredRun):
        if each.name not in {*NOT_FOUND, *but}:
            assert plain(getattr(found.run, each.name)) == plain(getattr(whole.run, each.name)), (
                each.name
            )


NUMBERS = int
TEXTS = "item-{}".format
NUMBERS_AS_TEXT = "{}".format


@pytest.mark.parametrize(
    "parts, floor, spell",
    [(20, NoiseFloor.TEMPORAL, TEXTS), (7, NoiseFloor.SERVE, NUMBERS_AS_TEXT)],
)
def test_one_batch_and_many_find_the_same_to_the_last_bit(parts, floor, spell):
    whole = measure(len(ASKED), len(ASKED), spell, floor)
    assert whole.run.models
    require_same(measure(-(-len(ASKED) // parts), len(ASKED), spell, floor), whole)


class MeasuredThere:
    """Lists that are pulled, split up and measured batch by batch.

    The parts come back in pairs, the last ones first.
    """

    unread_inputs = ()
    unreadable = ()

    def __init__(self, asked, plan):
        answers = pull_all(plan, asked, draw_panel(plan, asked, SLOT, 9), SLOT, 9)
        self.asked = answers.asked
        self._batches = answers.batches

    def read(self, request):
        return nullcontext(self)

    def measure(self, measurer, size):
        there = pickle.loads(pickle.dumps(measurer))  # noqa: S301 - as it is shipped
        parts = [
            there.measure(replace(each, weights=None, relevance=None))
            for each in self._batches(size)
        ]
        return (there.merge(parts[start : start + 2]) for start in range(0, len(parts), 2)[::-1])


def test_bytes_that_hold_no_part_are_refused():
    for data in (b"", b"no part", zlib.compress(b"\0" * 7 + b"\x02[]"), zlib.compress(b"\0" * 99)):
        with pytest.raises(ValueError, match=r"."):
            unpack_part(data, SummaryAccumulator((), {}))


def test_explanations_of_many_users_use_a_seeded_sample_and_name_it():
    whole, found, again = (
        measure(batch, sampled, int) for batch, sampled in ((300, 300), (300, 100), (50, 100))
    )

    assert found.run.summaries == whole.run.summaries
    assert found.coverage == whole.coverage
    require_same(again, found, "scores")
    explained = found.run.explanation
    split = found.run.split
    assert 70 < split.asked < 130
    assert explained.sentence.endswith(f"(seen in a sample of {split.asked} of 300 users)")
    assert "sample" not in str(whole.run.explanation)
    ginis = [each.n for each in found.run.arm_scores if each.metric == "exposure_gini"]
    assert 50 < max(ginis) < 130
    worst = [
        [each.user for each in run.evidence if each.kind is EvidenceKind.WORST]
        for run in (found.run, whole.run)
    ]
    assert worst[0] == worst[1]
    assert sum(each.kind is EvidenceKind.REPRESENTATIVE for each in found.run.evidence) == 4


HIDING = Pseudonyms(b"k" * 32)


def hidden(asked):
    return replace(asked, relevance=HiddenRelevance(asked.relevance, HIDING), pseudonyms=HIDING)


def test_a_pseudonym_is_the_first_half_of_the_hmac_as_rfc_4231_has_it():
    jefe = Pseudonyms(b"Jefe")
    told = jefe.find("what do ya want for nothing?")
    assert told == jefe.find(told) == "hmac-5bdcc146bf60754e6a042426089575c7"
    assert "Jefe" not in repr(jefe)
    for user in ("", "hmac-5", "\ud800", "ü"):
        assert jefe.find(user) == jefe.hide([user, "other"])[0] != HIDING.find(user)


def test_with_pseudonyms_the_same_is_measured_and_no_id_is_left():
    asked, memory = world(TEXTS)
    lists = memory.last_lists
    kept = {
        arm: replace(getattr(lists, arm), users=HIDING.hide(getattr(lists, arm).users))
        for arm in ("baseline", "candidate")
    }
    known = measured(asked, memory, noise_floor=NoiseFloor.TEMPORAL)
    found = measured(
        hidden(asked),
        replace(memory, last_lists=replace(lists, **kept)),
        noise_floor=NoiseFloor.TEMPORAL,
    )
    for name in ("coverage", "summaries", "arm_scores", "catalogue_size", "is_labelled"):
        assert plain(getattr(found.run, name)) == plain(getattr(known.run, name)), name
    assert {each.user for each in found.run.evidence if each.kind == "worst"} <= set(
        HIDING.hide(ASKED)
    )
    assert found.notes.keys() == known.notes.keys()
    assert "user-" not in repr((plain(found.run), found.notes, found.left_out))
    assert "user-" in repr((plain(known.run), known.notes, known.left_out))


def test_lists_that_are_measured_elsewhere_are_hidden_there_and_give_the_same_run():
    asked, memory = world(TEXTS)
    there = replace(hidden(asked), joined=MeasuredThere(asked, EVERYTHING))
    found = measured(there, memory, {"batch_users": 70})
    require_same(found, measured(hidden(asked), memory))
    assert "user-" not in repr((plain(found.run), found.notes))


def test_scores_of_the_panel_are_those_of_its_fixed_users_in_every_run():
    asked = hidden(world(TEXTS)[0])

    def users_kept(size):
        scores = measured(asked, Memory(), sample=size, keep_scores=Keep.PANEL).run.scores
        return {user for batch in scores or () for user in batch.users}

    fixed = users_kept(SampleOptions(fixed=60))
    more = users_kept(SampleOptions(fixed=60, rotating=150))
    assert set() != fixed <= more  # a rotating user takes the place of a fixed one without a list
    assert len(more) <= 60


def test_an_error_about_one_users_relevance_names_the_pseudonym():
    odd = CannedRelevance({SLOT: UserDataError("kim", "of labels.csv stands in two rows")})
    with pytest.raises(SourceError) as caught:
        HiddenRelevance(odd, HIDING).relevance(SLOT)
    assert str(caught.value) == f"user '{HIDING.find('kim')}' of labels.csv stands in two rows"
