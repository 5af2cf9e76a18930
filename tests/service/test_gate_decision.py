"""A gate over stored runs with known scores: what it judges, what it ignores, and why there is no verdict."""

import math
import re
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd
import pytest
import yaml

import factories
from factories import DAY, SLOT, HeldClock, changed
from monitor.measures.sampling import draw_users
from monitor.model.errors import InputError, MonitorError
from monitor.model.gate import LeftOut
from monitor.model.rankings import Coverage, UserTable
from monitor.model.rules import Comparison
from monitor.model.runs import KeptLists, RunStatus, Scores
from monitor.model.statistics import DerivedMetric, NoiseFloor
from monitor.service.gate.decision import judge_stored
from monitor.service.gate.question import Yardstick, make_question
from monitor.sources import SampleOptions
from monitor.storage import SqlStore
from storage.worked import run
from tables import cells

METRIC = "extended_tau"
OVER = DerivedMetric.OVER_FLOOR.of(METRIC)


def sampled(**changes):
    """A comparison with a noise floor and rotating users, of the configuration hash that `GateResult` stores."""
    base = {
        "metrics": (METRIC, "rbo(p=0.9)"),
        "sample": SampleOptions(fixed=20, rotating=200),
        "noise_floor": NoiseFloor.SERVE,
        "config_hash": "hash",
    }
    return factories.comparison(**(base | changes))


def people(count=1000):
    """Users u0000, u0001 and so on. Every fourth is in DE, the others are in UK."""
    names = [f"u{number:04}" for number in range(count)]
    country = pd.Categorical(["DE" if number % 4 == 0 else "UK" for number in range(count)])
    return UserTable(users=pd.Index(names, dtype="str"), segments={"country": country})


@dataclass
class Gated:
    """A store with runs of one comparison, one a day."""

    store: SqlStore
    comparison: Comparison
    clock: HeldClock = field(default_factory=HeldClock)
    users: UserTable = field(default_factory=people)
    day: int = 0

    def run(
        self, score=-0.4, *, without=lambda _: False, series=OVER, keeps_lists=False, **changes
    ):
        """Store the run of the next day. The drawn users have this score, except for the missing ones."""
        slot = SLOT + self.day * DAY
        self.day += 1
        panel = draw_users(self.users, self.comparison, slot)
        names = [name for name in panel.users if not without(name)]
        values = score(names) if callable(score) else np.full(len(names), score)
        scores = Scores(
            users=pd.Index(names, dtype="str"), by_metric={series: values} if series else {}
        )
        paired = set(names)
        rows = tuple(
            factories.coverage_row(
                len(places), sum(panel.users[place] in paired for place in places), segment
            )
            for segment, places in panel.segments.items()
        )
        if keeps_lists:
            changes["lists"] = _lists(panel, names)
        changes = {"config_hash": self.comparison.config_hash} | changes
        parts = {"scores": scores, "coverage": Coverage(rows=rows), "summaries": ()}
        run(self.store, slot, comparison=self.comparison.name, **parts, **changes)

    def ask(self, *, margin=0.05, **asked):
        name = self.comparison.name
        question = make_question({name: self.comparison}, name, margin=margin, alpha=0.01, **asked)
        return judge_stored(self.store.history, question, self.clock, lambda _: self.users)


def _lists(panel, names):
    """One item for each user. Like in a run, segments without a paired user are missing."""
    lists = factories.rankings({name: ["i1"] for name in names})
    rows = {
        segment: np.flatnonzero(np.isin(names, panel.users[places]))
        for segment, places in panel.segments.items()
    }
    return KeptLists(
        baseline=lists,
        candidate=lists,
        segments={name: found for name, found in rows.items() if len(found)},
    )


def figures(found):
    return {each.segment: (each.users, each.missing, each.verdict.value) for each in found.segments}


@pytest.fixture
def world(store):
    return Gated(store, sampled())


def said(found):
    return found.verdict.value, found.reason.value


def test_only_rotating_users_count_but_missing_fixed_users_count_as_rotating(world):
    only_fixed = changed(world.comparison, sample=SampleOptions(fixed=20))
    fixed = list(draw_users(world.users, only_fixed, SLOT).users)
    for _ in range(2):
        world.run(lambda names: np.where(np.isin(names, fixed), 2.0, -0.4))
    found = world.ask()
    assert [run.users for run in found.runs] == [200, 200]
    assert found.segments[0].mean_best == pytest.approx(-0.4)
    world.run(without=set(fixed[:3]).__contains__)
    assert (
        world.ask(since=SLOT + 2 * DAY).segments[0].missing == 3
    )  # each is taken for a rotating one


def test_users_added_for_a_segment_do_not_count(store):
    world = Gated(store, sampled(sample=SampleOptions(fixed=20, rotating=200, minimum=100)))
    drawn = [set(draw_users(world.users, sampled(), SLOT + day * DAY).users) for day in range(2)]
    for asked in drawn:
        world.run(
            partial(lambda asked, names: np.where(np.isin(names, list(asked)), -0.4, 2.0), asked)
        )
    found = world.ask(segments=("all", "each"))
    assert found.runs == world.ask().runs
    assert [each.mean_best for each in found.segments] == pytest.approx(
        [-0.4] * len(found.segments)
    )


def test_a_fixed_sample_is_judged_like_all_users_and_the_sentence_says_so(store):
    world = Gated(store, sampled(sample=SampleOptions(fixed=300)))
    for excess in (0.9, -0.4, -0.4):
        world.run(excess)
    found = world.ask()
    assert said(found) == ("safe", "decided")
    assert found.looks == 3
    assert [run.users for run in found.runs] == [300]
    assert found.sentence.endswith(
        "; each run asks for the same 300 users: the verdict is about these users"
    )
    world.comparison = sampled(sample=SampleOptions(fixed=2000))  # more than there are
    world.run()
    assert world.ask().runs[0].users == 1000


def test_missing_users_count_with_their_worst_score_and_decide(world):
    world.run(-0.1, without=lambda name: name.endswith("7"))
    found = world.ask()
    (segment,) = found.segments
    assert said(found) == ("inconclusive", "no_data")
    assert segment.users == 200
    assert segment.missing > 10
    assert (segment.mean_best or 0) < -0.1 < (segment.mean_worst or -1)
    assert "have no score, and their scores would decide" in found.sentence


def test_an_undefined_score_counts_as_missing(world):
    world.run(math.nan)
    assert world.ask().segments[0].missing >= 200


def run_over_few(world):
    world.users = people(150)
    world.run()


LOST = "the candidate gave no list for 220 of 220 users: left them out; nothing could be compared"


@pytest.mark.parametrize(
    "act, left_out, words",
    [
        (lambda _: None, [], "no run of home-feed can be judged: none is stored yet"),
        (
            lambda world: world.run(status=RunStatus.FAILED, reason=LOST),
            [LeftOut.FAILED],
            f"1 run with status failed (the newest of these: {LOST})",
        ),
        (run_over_few, [LeftOut.ASKED_EVERYBODY], "1 run with all users in the sample"),
        (
            lambda world: world.run(series=""),
            [LeftOut.NO_SCORES],
            "without stored scores of the judged metric",
        ),
        (
            lambda world: world.run(2.0, config_hash="earlier"),
            [LeftOut.OTHER_CONFIGURATION],
            "configuration",
        ),
    ],
)
def test_without_a_usable_run_the_sentence_has_the_reason(world, act, left_out, words):
    act(world)
    found = world.ask()
    assert said(found) == ("inconclusive", "no_data")
    assert found.left_out == dict.fromkeys(left_out, 1)
    assert words in found.sentence


def test_without_a_noise_floor_the_distance_from_identical_lists_or_the_reference_is_judged(store):
    world = Gated(store, sampled(noise_floor=None))
    world.run(0.7, series=METRIC)
    found = world.ask(margin=0.5)
    assert found.question.excess.yardstick is Yardstick.IDENTICAL
    assert found.segments[0].mean_best == pytest.approx(0.3)
    assert said(found) == ("safe", "decided")
    assert "noise of the baseline is NOT subtracted" in str(found.question.excess)
    world.comparison = sampled()
    found = world.ask(margin=0.5, reference=0.8)
    assert found.question.excess.yardstick is Yardstick.REFERENCE
    assert found.segments[0].mean_best == pytest.approx(0.1)


def test_a_run_of_all_users_is_judged_alone_at_a_share_of_alpha(store):
    """Three runs: the third look may spend alpha/12, 1.08 in log10."""
    world = Gated(store, sampled(sample=None))
    for value in (2.0, 2.0, -0.4):
        world.run(value)
    found = world.ask()
    assert said(found) == ("safe", "decided")
    assert found.looks == 3
    assert len(found.runs) == 1
    assert found.runs[0].users == 1000
    assert found.left_out == {LeftOut.NOT_THE_NEWEST: 2}
    assert found.level == pytest.approx(0.01 / 12)
    alone = world.ask(since=SLOT + 2 * DAY)
    assert alone.segments[0].evidence_safe - found.segments[0].evidence_safe == pytest.approx(
        math.log10(12 / 2)
    )


def test_a_census_that_decides_nothing_does_not_promise_that_more_runs_will(store):
    world = Gated(store, sampled(sample=None))
    world.run(0.05)
    found = world.ask()
    assert said(found) == ("inconclusive", "too_few")
    assert found.sentence.endswith("each run asks the same users, so only more users can decide")


def test_segments_are_safe_together_only_if_each_is_safe(world):
    for _ in range(3):
        world.run(
            lambda names: np.array([1.5 if int(name[1:]) % 4 == 0 else -0.4 for name in names])
        )
    found = world.ask(segments=("each",))
    assert said(found) == ("breach", "decided")
    assert {name: verdict for name, (_, _, verdict) in figures(found).items()} == {
        "country=DE": "breach",
        "country=UK": "safe",
    }
    assert found.sentence.startswith("country=DE: the mean excess is above 0.05: at least ")
    assert world.ask(segments=("country=UK",)).verdict == "safe"


@pytest.mark.parametrize("keeps_lists", [False, True])
def test_missing_users_count_in_their_segment_even_if_it_was_not_kept(world, keeps_lists):
    world.run(keeps_lists=keeps_lists, without=lambda name: int(name[1:]) % 4 == 0)
    found = figures(world.ask(segments=("each",)))
    assert found["country=DE"][0] == found["country=DE"][1] > 30
    assert found["country=UK"][1] == 0


def test_an_unknown_segment_is_an_error_that_lists_the_segments(world):
    world.run()
    with pytest.raises(
        InputError, match=r"no segment 'country=FR'.*other than all: country=DE, country=UK"
    ):
        world.ask(segments=("country=FR",))


@pytest.mark.parametrize("keeps_lists", [False, True])
def test_segments_stay_known_with_kept_lists_and_are_not_guessed_without_them(world, keeps_lists):
    world.run(keeps_lists=keeps_lists)
    expected = figures(world.ask(segments=("each",)))
    assert expected.keys() == {"country=DE", "country=UK"}
    world.users = people(3000)
    if keeps_lists:
        assert figures(world.ask(segments=("each",))) == expected
        return
    with pytest.raises(
        InputError, match=r"are lost, because the source's users have changed. Set keep_lists: all"
    ):
        world.ask(segments=("each",))
    assert world.ask().verdict == "safe", "all needs no segments"


REFUSED = """
-                            name: nope                    no comparison named 'nope': choose one of home-feed
-                            metric: overlap               does not measure overlap: choose one of extended_tau, rbo
-                            metric: nonsense              unknown metric 'nonsense'
-                            alpha: 0.0                    alpha 0 is no error rate
-                            margin: 2.0                   margin 2 is outside the range of scores: write one between -2 and 2
-                            margin: .nan                  margin nan is outside
noise_floor: null            margin: -0.1                  write one between 0 and 2
-                            reference: 1.5                reference 1.5 is not a score of extended_tau: choose one from -1 to 1
keep_scores: 500             -                             set keep_scores: all
sample: early                -                             selects users by earlier scores
noise_floor: temporal        -                             users have none: use {serve: true}
metrics: [rbo_min(p=0.9)], noise_floor: null    -                             no fixed value on identical lists: give the score
metrics: [footrule], noise_floor: null          margin: 0.5, reference: .nan  footrule
"""
"""What the comparison is, what is asked, and what is said of it."""
PARTS = {"early": SampleOptions(fixed=9, stop_when="decided"), "temporal": NoiseFloor.TEMPORAL}


def test_a_question_without_an_answer_is_rejected_with_the_reason():
    for *given, words in cells(REFUSED):
        changes, asked = (yaml.safe_load(f"{{{text.strip('-')}}}") for text in given)
        changed_to = {
            name: tuple(each) if isinstance(each, list) else PARTS.get(each, each)
            for name, each in changes.items()
        }
        comparison = sampled(**changed_to)
        asked = {"name": comparison.name, "margin": 0.05, "alpha": 0.01} | asked
        with pytest.raises(MonitorError, match=re.escape(words)):
            make_question({comparison.name: comparison}, **asked)
