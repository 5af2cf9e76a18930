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
HALF = {"v12": 49, "v13": 51}


@pytest.mark.parametrize(
    ("versions", "now", "before", "since"),
    [
        (["v12", "v13"], "v13", "v12", 1),
        (["v12", HALF, {"v12": 51, "v13": 49}], "v12", None, None),
        (["v12", HALF, {"v12": 20, "v13": 80}, {"v12": 60, "v13": 40}], "v13", "v12", 2),
        (["v12", None, {}, "v12"], "v12", None, None),
        ([None, "v12", "v13", "v12"], "v12", "v13", 3),
        ([{f"request-{number}": 1 for number in range(9)}], None, None, None),
    ],
)
def test_the_model_is_what_two_thirds_of_the_users_were_answered_by_last(
    versions: list[Versions], now: str | None, before: str | None, since: int | None
) -> None:
    (found,) = (days(versions, [0.5] * len(versions))[-1].run.models or {}).values()
    assert (found.now, found.before, found.since) == (now, before, None if since is None else SLOT + since * DAY)


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
    means = [*MEANS, 0.30, 0.30, 0.31]
    assert judged([*OLD, "v12", "v13"], means[:-1])[0].state is State.FIRING
    ended, changes = judged([*OLD, "v12", "v13", "v13"], means)
    assert ended.state is State.QUIET
    start, end = (each for each in changes if each.alert == WATCH[0])
    assert (start.slot, start.is_start, start.is_new_normal) == (SLOT + 7 * DAY, True, False)
    assert (end.slot, end.is_start, end.is_new_normal) == (SLOT + 9 * DAY, False, True)


def test_a_model_that_comes_back_is_judged_at_once_by_what_was_normal_of_it() -> None:
    for mean, state in ((0.52, State.QUIET), (0.30, State.FIRING)):
        back, _ = judged([*OLD, *["v13"] * 3, "v12"], [*MEANS, 0.30, 0.31, 0.29, mean])
        assert back.state is state
        assert "0.52 was expected after 7 healthy runs" in back.reason


def test_of_models_that_change_with_every_run_each_second_one_at_least_is_judged() -> None:
    means = [*MEANS, 0.52, 0.51]
    assert judged([*OLD, "v13", "v14"], means)[0].outcome is Outcome.OK
    assert judged([*OLD, "v13", "v14"], [*means[:-1], 0.10])[0].state is State.FIRING


def test_a_deployment_under_way_and_an_unknown_version_change_nothing_until_it_is_done() -> None:
    for unclear in (HALF, None):
        assert judged([*OLD, unclear], [*MEANS, 0.30])[0].state is State.FIRING
    assert judged([None, None, *OLD[2:], HALF, "v12"], [*MEANS, 0.50, 0.52])[0].outcome is Outcome.OK
    assert judged([*OLD, HALF, "v13"], [*MEANS, 0.50, 0.30])[0].outcome is Outcome.TOO_FEW


def test_evidence_of_a_trend_begins_anew_with_a_model() -> None:
    falling = [0.515, 0.509, 0.503, 0.497, 0.491]
    for version, least, most in (("v12", 2, 9), ("v13", 0, 1)):
        rejudging = Rejudgement(comparison=BY_MODEL)
        for each in days([*OLD, *["v12"] * 5, *[version] * 3], [*MEANS, *falling, 0.515, 0.50, 0.51]):
            rejudging.judge(each)
        evidence = re.search(r"no lasting fall so far \(evidence ([0-9.]+),", rejudging.states["Trend", "all"].reason)
        assert evidence is not None
        assert least < float(evidence[1]) < most


def test_a_change_is_told_in_messages_for_a_week() -> None:
    models = days(["v12", "v13"], [0.5] * 2)[-1].run.models
    told = [write_models(models, SLOT + later * DAY) for later in (1, 7, 8)]
    assert told == [
        ("The candidate's model changed with this run, v12 → v13.",),
        ("The candidate's model changed with the run of 2024-01-09T00:00:00Z, v12 → v13.",),
        (),
    ]
    assert write_models(None, SLOT) == ()
