"""Versions of models over runs: which one counts as an arm's model, and what is normal where each has a normal of its own."""

import re
from collections.abc import Mapping, Sequence

import pytest

from factories import DAY, SLOT, comparison
from monitor.model.alerts import AlertState, Outcome, State, Transition
from monitor.model.model_versions import follow, write_models
from monitor.model.rankings import Arm
from monitor.model.runs import RunRecord
from monitor.pipeline.judgement import Rejudgement
from pipeline.test_judgement import DROP, MEANS, TREND, WATCH, measured, record

BY_MODEL = comparison(rules=(DROP, TREND), by_model=True)
Versions = str | Mapping[str, int] | None


def days(versions: Sequence[Versions], means: Sequence[float]) -> list[RunRecord]:
    """Runs in which the candidate answered by these versions, each of 100 users where it is one alone."""
    found, models = list[RunRecord](), None
    for day, (version, mean) in enumerate(zip(versions, means, strict=True)):
        users = {version: 100} if isinstance(version, str) else version or {}
        models = follow(models, {Arm.CANDIDATE: users}, SLOT + day * DAY)
        found.append(record(day, measured(mean), models=models))
    return found


def judged(versions: Sequence[Versions], means: Sequence[float]) -> tuple[AlertState, list[Transition]]:
    rejudging = Rejudgement(comparison=BY_MODEL)
    changes = [change for each in days(versions, means) for change in rejudging.judge(each)]
    return rejudging.states[WATCH], changes


OLD: list[Versions] = ["v12"] * 7


@pytest.mark.parametrize(
    ("versions", "now"),
    [
        (["v12", "v13"], ("v13", "v12", 1)),
        (["v12", {"v12": 49, "v13": 51}, {"v12": 51, "v13": 49}], ("v12", None, None)),
        (["v12", {"v12": 49, "v13": 51}, {"v12": 20, "v13": 80}, {"v12": 60, "v13": 40}], ("v13", "v12", 2)),
        (["v12", None, {}, "v12"], ("v12", None, None)),
        ([None, "v12", "v13", "v12"], ("v12", "v13", 3)),
        ([{f"request-{number}": 1 for number in range(9)}], (None, None, None)),
    ],
)
def test_the_model_is_what_two_thirds_of_the_users_were_answered_by_last(
    versions: list[Versions], now: tuple[str | None, str | None, int | None]
) -> None:
    models = days(versions, [0.5] * len(versions))[-1].run.models or {}
    found, day = models[Arm.CANDIDATE], now[2]
    assert (found.now, found.before, found.since) == (*now[:2], None if day is None else SLOT + day * DAY)
    assert models.keys() == {Arm.CANDIDATE}


def test_the_first_run_of_a_model_is_not_judged_the_second_one_is_by_its_level() -> None:
    first, _ = judged([*OLD, "v13"], [*MEANS, 0.30])
    assert (first.state, first.outcome) == (State.QUIET, Outcome.TOO_FEW)
    assert first.reason == "not judged by what was normal before: the candidate's model changed with this run, v12 → v13"
    second, _ = judged([*OLD, "v13", "v13"], [*MEANS, 0.30, 0.31])
    assert second.outcome is Outcome.OK
    assert second.reason.endswith(
        "2024-01-15T00:00:00Z: the candidate's model changed with the run of 2024-01-15T00:00:00Z, v12 → v13"
    )
    assert judged([*OLD, "v13", "v13"], [*MEANS, 0.30, 0.10])[0].state is State.FIRING
    later, _ = judged([*OLD, *["v13"] * 20], [*MEANS, *[0.30 + mean / 10 for mean in MEANS * 3][:20]])
    assert (later.outcome, "new normal" in later.reason) == (Outcome.OK, False)


def test_what_fires_when_the_model_changes_ends_as_the_new_normal() -> None:
    held, _ = judged([*OLD, "v12", "v13"], [*MEANS, 0.30, 0.30])
    assert held.state is State.FIRING
    ended, changes = judged([*OLD, "v12", "v13", "v13"], [*MEANS, 0.30, 0.30, 0.31])
    assert ended.state is State.QUIET
    assert [(each.slot, each.is_start, each.is_new_normal) for each in changes if each.alert == WATCH[0]] == [
        (SLOT + 7 * DAY, True, False),
        (SLOT + 9 * DAY, False, True),
    ]


@pytest.mark.parametrize(("mean", "state"), [(0.52, State.QUIET), (0.30, State.FIRING)])
def test_a_model_that_comes_back_is_judged_at_once_by_what_was_normal_of_it(mean: float, state: State) -> None:
    back, _ = judged([*OLD, *["v13"] * 3, "v12"], [*MEANS, 0.30, 0.31, 0.29, mean])
    assert back.state is state
    assert "0.52 was expected after 7 healthy runs" in back.reason


def test_of_models_that_change_with_every_run_each_second_one_at_least_is_judged() -> None:
    means = [*MEANS, 0.52, 0.51]
    assert judged([*OLD, "v13", "v14"], means)[0].outcome is Outcome.OK
    assert judged([*OLD, "v13", "v14"], [*means[:-1], 0.10])[0].state is State.FIRING


def test_a_deployment_under_way_and_an_unknown_version_change_nothing_until_it_is_done() -> None:
    mixed = {"v12": 49, "v13": 51}
    assert judged([*OLD, mixed], [*MEANS, 0.30])[0].state is State.FIRING
    assert judged([*OLD, None], [*MEANS, 0.30])[0].state is State.FIRING
    assert judged([None, None, *OLD[2:], mixed, "v12"], [*MEANS, 0.50, 0.52])[0].outcome is Outcome.OK
    assert judged([*OLD, mixed, "v13"], [*MEANS, 0.50, 0.30])[0].outcome is Outcome.TOO_FEW


@pytest.mark.parametrize(("version", "least", "most"), [("v12", 2, 9), ("v13", 0, 1)])
def test_evidence_of_a_trend_begins_anew_with_a_model(version: str, least: float, most: float) -> None:
    rejudging, falling = Rejudgement(comparison=BY_MODEL), [0.515, 0.509, 0.503, 0.497, 0.491]
    for each in days([*OLD, *["v12"] * 5, *[version] * 3], [*MEANS, *falling, 0.515, 0.50, 0.51]):
        rejudging.judge(each)
    evidence = re.search(r"no lasting fall so far \(evidence ([0-9.]+),", rejudging.states["Trend", "all"].reason)
    assert evidence is not None
    assert least < float(evidence[1]) < most


def test_a_change_is_told_in_messages_for_a_week() -> None:
    models = days(["v12", "v13"], [0.5] * 2)[-1].run.models
    assert write_models(models, SLOT + DAY) == ("The candidate's model changed with this run, v12 → v13.",)
    later = "The candidate's model changed with the run of 2024-01-09T00:00:00Z, v12 → v13."
    assert (write_models(models, SLOT + 7 * DAY), write_models(models, SLOT + 8 * DAY), write_models(None, SLOT)) == (
        (later,),
        (),
        (),
    )
