"""Runs that ask no more users than the verdicts of their rules take."""

from typing import Any, cast

import numpy as np
import pytest

from factories import changed, claim, comparison, pull, rule
from monitor.model.alerts import Outcome
from monitor.model.comparison import Comparison, SampleSize
from monitor.model.memory import Memory
from monitor.model.runs import RunResult
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.run import execute
from monitor.sequential.gate import CERTAIN, is_certain, round_ends
from pipeline.canned import Canned, CannedWeights, StillClock, arms, users

RUNS, USERS = 5_000, 100
NAMES = [f"u{place:03}" for place in range(400)]
LOW = rule(metric="overlap", threshold=0.5, scores=(0.0, 1.0), min_users=10, segments="each")
STOPPING = comparison(k=2, metrics=("overlap",), sample=SampleSize(fixed=300, stops_early=True), rules=(LOW,))


@pytest.mark.parametrize(
    ("counts", "off", "most_asked"),
    [((10, 0, 90), -1e-6, USERS), ((2, 50, 48), 1e-6, USERS), ((10, 0, 90), -0.3, USERS / 2)],
)
def test_of_thousands_of_runs_no_more_stop_on_the_wrong_side_than_promised(
    counts: tuple[int, ...], off: float, most_asked: float
) -> None:
    scores = np.repeat([0.0, 0.9, 1.0], counts)
    orders = np.random.default_rng(2).permuted(np.tile(scores, (RUNS, 1)), axis=1)
    limit, wrong, asked = float(scores.mean()) + off, 0, np.full(RUNS, USERS)
    for end in round_ends(USERS)[:-1]:
        is_new = is_certain(rule(threshold=limit, scores=(0.0, 1.0)), orders[:, :end], USERS) & (asked == USERS)
        wrong += int((is_new & ((orders[:, :end].mean(axis=1) < limit) != (off > 0))).sum())
        asked[is_new] = end
    assert wrong <= CERTAIN * RUNS
    assert asked.mean() <= most_asked


def asked_of(good: float, what: Comparison = STOPPING, **more: Any) -> tuple[RunResult, list[list[str]]]:
    """A run in which this share of the users have equal lists, and whom each round asked."""
    lists = {name: [1, 2] if place < good * 400 else [3, 4] for place, name in enumerate(NAMES)}
    both = arms(pull({name: [1, 2] for name in NAMES}), pull(lists), users(*NAMES, x=["a", "b"] * 200), **more)
    result = execute(what, both, claim(), Memory(), StillClock())
    first, other = ([list(each.users) for each in cast("Canned", arm).requests] for arm in (both.baseline, both.candidate))
    assert first == other
    return result, first


@pytest.mark.parametrize(
    ("good", "outcome", "more"),
    [(1.0, Outcome.OK, {"weights": CannedWeights({1: 1.0})}), (0.0, Outcome.BREACH, {"pseudonyms": Pseudonyms(b"key")})],
)
def test_a_run_asks_no_more_users_at_random_once_its_verdicts_are_certain(
    good: float, outcome: Outcome, more: dict[str, Any]
) -> None:
    result, rounds = asked_of(good, **more)
    everybody = [name for asked in rounds for name in asked]
    assert [state.outcome for state in result.states] == [outcome] * 3
    assert result.coverage is not None
    assert result.coverage.all.asked == result.coverage.all.paired == len(everybody) == len(set(everybody)) < 100
    assert 0.1 < np.mean([name < "u200" for name in everybody]) < 0.9


def test_a_run_that_is_never_certain_measures_as_one_that_asks_the_whole_panel_at_once() -> None:
    at_once, _ = asked_of(0.5, changed(STOPPING, sample=SampleSize(fixed=300)))
    for rules in ((LOW,), ()):
        result, rounds = asked_of(0.5, changed(STOPPING, rules=rules))
        assert len(rounds) == len(round_ends(300))
        assert (result.summaries, result.coverage) == (at_once.summaries, at_once.coverage)
