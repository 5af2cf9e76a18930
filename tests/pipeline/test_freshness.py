"""What is known of a run's answers in time: how far arms are apart, what came from caches, which noise floors are trusted."""

from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pytest

from factories import comparison, pull, rule
from monitor.model.alerts import Outcome
from monitor.model.memory import Memory
from monitor.model.rankings import Pull, Traces
from monitor.model.rules import Direction
from monitor.model.runs import RunResult
from monitor.model.statistics import NoiseFloor
from pipeline.canned import Canned, ran, users

COUNT = 500
PLACES = np.arange(COUNT)
NAMES = [f"u{number:03}" for number in PLACES]
OVER = rule(metric="over_floor(overlap)", direction=Direction.ABOVE, threshold=0.2, resolve_at=0.2, min_users=1)
SERVED = comparison(k=4, metrics=("overlap",), rules=(OVER,), noise_floor=NoiseFloor.SERVE)
FEW, ENOUGH = (np.where(count > PLACES, 0.0, nan) for count in (5, 6))


def answers(*, last: int = 4, changed: int = 0, came: Any = PLACES, age: Any = nan, ids: Any = nan) -> Pull:
    """Lists that end so, the ``changed`` first ones otherwise."""
    found = pull({name: [1, 2, 3, last + (place < changed)] for place, name in enumerate(NAMES)})
    came_s, age_s, of_ids = (np.full(COUNT, each, dtype=float) for each in (came, age, ids))
    traces = Traces(came_s=came_s, age_s=age_s, ids=of_ids, sign="Age: 3")
    return replace(found, rankings=replace(found.rankings, traces=traces))


def measured(first: Pull, second: Pull, candidate: Pull | None = None, overlaps: tuple[float, ...] = ()) -> RunResult:
    asked, memory = candidate or answers(last=9), Memory(floor_overlaps=overlaps)
    return ran(SERVED, first, asked, users(*NAMES), memory=memory, again=Canned(second))


@pytest.mark.parametrize(
    ("first", "second", "overlaps", "told"),
    [
        ({}, {"age": 3.0}, (), "a cache gave one of both answers for 500 of 500 users (Age: 3)"),
        ({}, {"age": ENOUGH}, (), "for 6 of 500 users"),
        ({}, {"age": FEW}, (1.0,) * 20, None),
        ({"came": PLACES + 0.5, "age": 0.0}, {}, (), "for 500 of 500 users (Age: 3)"),  # where the second one was stored
        ({"came": PLACES + 0.5, "ids": PLACES}, {"ids": PLACES + 1}, (), None),
        ({"ids": PLACES}, {"ids": PLACES}, (), "both answers have the same id for 500 of 500 users"),
        ({"ids": 5}, {"ids": 5}, (), None),  # one for everybody
        ({"ids": PLACES % 3}, {"ids": PLACES % 3}, (), None),  # that of the machine
        ({}, {}, (0.91, 0.95, 0.9), "equal for all 500 users, which by the last runs happens once in 1e11"),
        ({}, {"changed": 1}, (0.9, 0.9, 0.9), None),
        ({}, {}, (0.9, 0.9), None),  # of two runs one does not know
        ({}, {}, (0.91, 0.95, 0.97), None),  # by chance once in 4 million runs
    ],
)
def test_a_floor_whose_second_answers_are_the_first_ones_is_not_judged_and_one_without_chance_in_it_is(
    first: dict[str, Any], second: dict[str, Any], overlaps: tuple[float, ...], told: str | None
) -> None:
    result = measured(answers(**first), answers(**second), overlaps=overlaps)
    (state,), reason = result.states, str(result.reason)
    if told is None:
        assert (result.reason, state.outcome) == (None, Outcome.BREACH)
    else:
        assert reason.startswith("noise_floor is untrusted: ")
        assert told in reason
        assert (state.outcome, {each.metric for each in result.summaries}) == (Outcome.NO_DATA, {"overlap"})
        assert reason.startswith(str(state.reason))


def test_an_arm_that_answers_from_a_cache_is_told_and_leaves_the_floor_be() -> None:
    before = measured(answers(age=300.0), answers(came=PLACES + 9))
    assert before.reason == "the baseline answered 500 of 500 users from a cache, up to 300 s old (Age: 3)"
    assert {each.metric for each in before.summaries} > {"over_floor(overlap)"}
    candidate = measured(answers(), answers(), answers(last=9, age=ENOUGH))
    assert candidate.reason == "the candidate answered 6 of 500 users from a cache (Age: 3)"


def test_gaps_are_those_between_the_answers_of_each_user_who_has_both() -> None:
    result = measured(answers(), answers(came=PLACES - np.where(PLACES < 400, 0.25, 3.0)), answers(came=PLACES + 0.5))
    assert result.gap_seconds == {"candidate": {"0.5": 0.5, "0.99": 0.5}, "noise_floor": {"0.5": 0.25, "0.99": 3.0}}
    assert not measured(pull("u001:1"), answers()).gap_seconds
