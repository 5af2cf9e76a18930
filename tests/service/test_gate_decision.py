"""A gate over stored runs whose true scores are known: what is judged, what is left out, and why there is no verdict."""

import math
import re
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import yaml

import factories
from factories import DAY, SLOT, HeldClock, changed
from monitor.measures.sampling import draw_users
from monitor.model.errors import InputError, MonitorError
from monitor.model.gate import LeftOut
from monitor.model.rankings import Coverage, CoverageRow, UserTable
from monitor.model.rules import Comparison
from monitor.model.runs import KeptLists, RunStatus, Scores
from monitor.model.statistics import DerivedMetric, NoiseFloor
from monitor.service.gate import make_question
from monitor.service.gate.decision import judge_stored
from monitor.service.gate.question import Yardstick
from monitor.sources import SampleOptions
from monitor.storage import SqlStore
from storage.worked import run
from tables import cells

METRIC = "extended_tau"
OVER = DerivedMetric.OVER_FLOOR.of(METRIC)
Floats = npt.NDArray[np.float64]


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
    """Users u0000 and on, every fourth in DE and the others in UK."""
    names = [f"u{number:04}" for number in range(count)]
    country = pd.Categorical(["DE" if number % 4 == 0 else "UK" for number in range(count)])
    return UserTable(users=pd.Index(names, dtype="str"), segments={"country": country})


def constant(value):
    return lambda names: np.full(len(names), value)


@dataclass
class Gated:
    """A store with runs of one comparison, one a day."""

    store: SqlStore
    comparison: Comparison
    clock: HeldClock = field(default_factory=HeldClock)
    users: UserTable = field(default_factory=people)
    day: int = 0

    def run(self, score, *, without=lambda _: False, series=OVER, keeps_lists=False, **changes):
        """Store the next day's run: the drawn users scored, but for those ``without``, who are missing."""
        slot = SLOT + self.day * DAY
        self.day += 1
        panel = draw_users(self.users, self.comparison, slot)
        names = [name for name in panel.users if not without(name)]
        scores = Scores(
            users=pd.Index(names, dtype="str"), by_metric={series: score(names)} if series else {}
        )
        paired = set(names)
        rows = tuple(
            CoverageRow(
                segment=segment,
                asked=len(places),
                paired=sum(panel.users[place] in paired for place in places),
                users_by_reason={},
            )
            for segment, places in panel.segments.items()
        )
        if keeps_lists:
            changes["lists"] = _lists(panel, names)
        told = {
            "config_hash": self.comparison.config_hash,
            "coverage": Coverage(rows=rows),
            **changes,
        }
        run(self.store, slot, comparison=self.comparison.name, scores=scores, summaries=(), **told)

    def ask(self, *, margin=0.05, alpha=0.01, **asked):
        question = make_question(
            {self.comparison.name: self.comparison},
            self.comparison.name,
            margin=margin,
            alpha=alpha,
            **asked,
        )
        return judge_stored(self.store.history, question, self.clock, lambda _: self.users)


def _lists(panel, names):
    """One item each; segments that nobody was compared of are left out, as a run does."""
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


def test_only_rotating_users_count_but_a_missing_fixed_one_is_taken_for_one_of_them(world):
    fixed = _fixed_of(world)
    for _ in range(2):
        world.run(lambda names: np.where(np.isin(names, fixed), 2.0, -0.4))
    found = world.ask()
    assert [run.users for run in found.runs] == [200, 200]
    assert found.segments[0].mean_best == pytest.approx(-0.4)
    world.run(constant(-0.4), without=set(fixed[:3]).__contains__)
    assert (
        world.ask(since=SLOT + 2 * DAY).segments[0].missing == 3
    )  # each is taken for a rotating one


def test_users_added_for_a_segment_stand_for_that_segment_alone_and_are_no_new_evidence(store):
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


def _fixed_of(world):
    users = draw_users(
        world.users, changed(world.comparison, sample=SampleOptions(fixed=20)), SLOT
    ).users
    return list(users)


def test_a_fixed_sample_is_judged_for_its_users_like_a_census_and_says_so(store):
    world = Gated(store, sampled(sample=SampleOptions(fixed=300)))
    for excess in (0.9, -0.4, -0.4):
        world.run(constant(excess))
    found = world.ask(margin=0.05)
    assert (said(found), found.looks, [run.users for run in found.runs]) == (
        ("safe", "decided"),
        3,
        [300],
    )
    assert found.sentence.endswith(
        "; each run asks for the same 300 users: the verdict is about these users"
    )
    world.comparison = sampled(sample=SampleOptions(fixed=2000))  # more than there are
    world.run(constant(-0.4))
    assert world.ask().runs[0].users == 1000


def test_missing_users_are_set_to_their_worst_and_decide(world):
    world.run(constant(-0.1), without=lambda name: name.endswith("7"))
    found = world.ask(margin=0.05)
    (segment,) = found.segments
    assert said(found) == ("inconclusive", "no_data")
    assert segment.users == 200
    assert segment.missing > 10
    assert (segment.mean_best or 0) < -0.1 < (segment.mean_worst or -1)
    assert "have no score, and their scores would decide" in found.sentence


def test_an_undefined_score_is_a_missing_one(world):
    world.run(lambda names: np.full(len(names), math.nan))
    assert world.ask().segments[0].missing >= 200


def run_over_few(world):
    world.users = people(150)
    world.run(constant(-0.4))


LOST = "the candidate gave no list for 220 of 220 users: left them out; nothing could be compared"


@pytest.mark.parametrize(
    ("act", "left_out", "words"),
    [
        (lambda _: None, [], "no run of home-feed can be judged: none is stored yet"),
        (
            lambda world: world.run(constant(-0.4), status=RunStatus.FAILED, reason=LOST),
            [LeftOut.FAILED],
            f"1 run with status failed (the newest of these: {LOST})",
        ),
        (run_over_few, [LeftOut.ASKED_EVERYBODY], "1 run with all users in the sample"),
        (
            lambda world: world.run(constant(-0.4), series=""),
            [LeftOut.NO_SCORES],
            "without stored scores of the judged metric",
        ),
        (
            lambda world: world.run(constant(2.0), config_hash="earlier"),
            [LeftOut.OTHER_CONFIGURATION],
            "configuration",
        ),
    ],
    ids=["none", "failed", "few users", "no scores", "earlier configuration"],
)
def test_without_a_run_that_can_be_judged_it_is_said_why(world, act, left_out, words):
    act(world)
    found = world.ask()
    assert said(found) == ("inconclusive", "no_data")
    assert found.left_out == dict.fromkeys(left_out, 1)
    assert words in found.sentence


def test_without_a_noise_floor_the_distance_from_identical_lists_or_the_reference_is_judged(store):
    world = Gated(store, sampled(noise_floor=None))
    world.run(constant(0.7), series=METRIC)
    found = world.ask(margin=0.5)
    assert found.question.excess.yardstick is Yardstick.IDENTICAL
    assert found.segments[0].mean_best == pytest.approx(0.3)
    assert said(found) == ("safe", "decided")
    assert "noise of the baseline is NOT subtracted" in str(found.question.excess)
    world.comparison = sampled()
    found = world.ask(margin=0.5, reference=0.8)
    assert found.question.excess.yardstick is Yardstick.REFERENCE
    assert found.segments[0].mean_best == pytest.approx(0.1)


def test_a_census_is_judged_by_its_newest_run_at_a_share_of_alpha(store):
    """Three runs: the third look may spend alpha/12, 1.08 in log10."""
    world = Gated(store, sampled(sample=None))
    for value in (2.0, 2.0, -0.4):
        world.run(constant(value))
    found = world.ask()
    assert said(found) == ("safe", "decided")
    assert (found.looks, len(found.runs), found.runs[0].users) == (3, 1, 1000)
    assert found.left_out == {LeftOut.NOT_THE_NEWEST: 2}
    assert found.level == pytest.approx(0.01 / 12)
    alone = world.ask(since=SLOT + 2 * DAY)
    assert alone.segments[0].evidence_safe - found.segments[0].evidence_safe == pytest.approx(
        math.log10(12 / 2)
    )


def test_a_census_that_decides_nothing_does_not_promise_that_more_runs_will(store):
    world = Gated(store, sampled(sample=None))
    world.run(constant(0.05))
    found = world.ask(margin=0.05)
    assert said(found) == ("inconclusive", "too_few")
    assert found.sentence.endswith("each run asks the same users, so only more users can decide")


def test_segments_are_safe_together_only_where_each_is(world):
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
def test_missing_users_count_in_their_own_segment_though_it_is_too_thin_to_be_kept(
    world, keeps_lists
):
    world.run(constant(-0.4), keeps_lists=keeps_lists, without=lambda name: int(name[1:]) % 4 == 0)
    found = figures(world.ask(segments=("each",)))
    assert found["country=DE"][0] == found["country=DE"][1] > 30
    assert found["country=UK"][1] == 0


def test_a_segment_that_no_run_has_is_an_error_that_names_those_there_are(world):
    world.run(constant(-0.4))
    with pytest.raises(
        InputError, match=r"no segment 'country=FR'.*other than all: country=DE, country=UK"
    ):
        world.ask(segments=("country=FR",))


@pytest.mark.parametrize("keeps_lists", [False, True])
def test_segments_kept_with_the_lists_outlive_the_users_and_others_are_not_guessed(
    world, keeps_lists
):
    world.run(constant(-0.4), keeps_lists=keeps_lists)
    expected = figures(world.ask(segments=("each",)))
    assert expected.keys() == {"country=DE", "country=UK"}
    world.users = people(3000)
    if keeps_lists:
        assert figures(world.ask(segments=("each",))) == expected
        return
    with pytest.raises(
        InputError,
        match=r"are lost, because the source's users have changed. Set keep_lists: all",
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


@pytest.mark.parametrize(("changes", "asked", "words"), cells(REFUSED))
def test_a_question_that_can_have_no_answer_is_refused_in_words(changes, asked, words):
    changes, asked = (yaml.safe_load(f"{{{text.strip('-')}}}") for text in (changes, asked))
    changed_to = {
        name: tuple(each) if isinstance(each, list) else PARTS.get(each, each)
        for name, each in changes.items()
    }
    comparison = sampled(**changed_to)
    with pytest.raises(MonitorError, match=re.escape(words)):
        make_question(
            {comparison.name: comparison},
            **({"name": comparison.name, "margin": 0.05, "alpha": 0.01} | asked),
        )
