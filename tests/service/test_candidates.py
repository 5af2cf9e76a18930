"""Candidates that really serve: several of one baseline, of whom none suffers from another.

And one deployed step by step.
"""

import re
import threading
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from commands import rankwatch, read_json
from factories import SLOT, comparison, pull
from monitor.boundary.deadline import BackgroundCall, Deadline
from monitor.model.errors import SourceError
from monitor.model.rankings import CoverageReason
from monitor.pipeline.pull import draw_panel, pull_all
from monitor.pipeline.shared_answers import SharedAnswers
from pipeline.canned import Canned, arms, users
from servers.daemon import wait_for
from servers.recommender import running_recommender
from service.stepped_daemon import watching

AT = "2024-01-08T00:00:00Z"
USERS = [f"u{number}" for number in range(12)]
STATUS = {"a": "failed", "b": "failed", "c": "ok"}


class World:
    """A baseline and three candidates that really serve, and a folder whose configurations ask them."""

    def __init__(self, folder, servers):
        self.folder = folder
        self.baseline = servers[0]
        self.candidates = dict(zip(STATUS, servers[1:], strict=True))
        (folder / "users.csv").write_text("user\n" + "\n".join(USERS))
        (folder / "users.key").write_text("0123456789abcdef0123456789abcdef\n")
        for place, server in enumerate(servers):
            server.lists = {
                user: [number % 3, 11 + place, 12, 13, 14] for number, user in enumerate(USERS)
            }

    def configure(self, entries, users=""):
        """A comparison for each name, whose ``candidate`` or ``candidates`` are given."""
        comparisons = "".join(
            f"""
  - name: {name}
    every: 1d
    k: 5
    baseline: {self.asks(self.baseline)}
    {candidates}
    users: {{file: {{path: users.csv, user: user}}{users}}}
    noise_floor: {{serve: true}}"""
            for name, candidates in entries.items()
        )
        path = self.folder / "rankwatch.yaml"
        path.write_text(
            "listen: 127.0.0.1:0\nprivacy: {users: hmac, key_file: "
            f"users.key}}\ncomparisons:{comparisons}\n"
        )
        return path

    def asks(self, server):
        return f'{{http: {{url: "{server.url}", retries: 0}}}}'

    @property
    def several(self):
        return (
            "candidates: "
            f"{{{', '.join(f'{key}: {self.asks(server)}' for key, server in self.candidates.items())}}}"
        )


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        yield World(tmp_path, [stack.enter_context(running_recommender()) for _ in range(4)])


@pytest.mark.slow
def test_three_candidates_need_one_pull_of_the_baseline_and_score_like_three_comparisons(world):
    world.configure({"feed": world.several})
    together = read_json(f"run-once feed --slot {AT}")
    assert world.baseline.attempts == dict.fromkeys(
        USERS, 2
    )  # once, and once more for the noise floor
    assert all(server.attempts == dict.fromkeys(USERS, 1) for server in world.candidates.values())
    world.configure(
        {
            f"feed.{key}": f"candidate: {world.asks(server)}"
            for key, server in world.candidates.items()
        }
    )
    (world.folder / "rankwatch.db").unlink()
    apart = read_json(f"run-once --slot {AT}")
    assert [each | {"gap_s": each["gap_s"].keys()} for each in apart] == [
        each | {"gap_s": {"candidate", "noise_floor"}} for each in together
    ]
    assert [each["comparison"] for each in together] == ["feed.a", "feed.b", "feed.c"]
    assert world.baseline.attempts == dict.fromkeys(USERS, 2 + 6)


@pytest.mark.slow
def test_pairs_of_candidates_are_compared_without_another_pull(world):
    world.configure({"feed": f"{world.several}\n    pairs: true\n    rules: default"})
    found = read_json(f"run-once feed --slot {AT}")
    assert [each["comparison"] for each in found] == [
        f"feed.{key}" for key in ["a", "b", "c", "a.b", "a.c", "b.c"]
    ]
    assert all(server.attempts == dict.fromkeys(USERS, 1) for server in world.candidates.values())


@pytest.mark.slow
def test_commands_accept_one_candidate_or_all_of_them(world):
    own = f"candidate: {world.asks(world.baseline)}\n    {world.several}"
    world.configure({"other": world.several, "feed": own})
    # Users of candidate, baseline and noise floor
    replay = f"replay feed --since {AT} --until {AT}"
    for command, asked in (("check feed", 3 * 3), (replay, 3 * len(USERS))):
        world.baseline.attempts.clear()
        assert len(read_json(command)) == 4
        assert world.baseline.attempts.total() == asked
    for name, names in (("feed.b", {"feed.b"}), ("feed", {"feed", "feed.a", "feed.b", "feed.c"})):
        rankwatch(f"run-once {name} --textfile metrics.prom")
        text = (world.folder / "metrics.prom").read_text()
        assert set(re.findall(r'comparison="([^"]+)"', text)) == names


@pytest.mark.slow
def test_in_a_daemon_a_candidate_that_hangs_or_fails_does_not_affect_the_others(world):
    world.candidates["a"].otherwise = "slow"
    world.candidates["b"].otherwise = "server_error"
    config = world.configure({"feed": world.several}, users=", sample: 10")
    with watching(config) as watched:
        ended = [
            f'runs_total{{comparison="feed.{key}",status="{status}"}}'
            for key, status in STATUS.items()
        ]
        wait_for(
            lambda: all(watched.value(series) == 1 for series in ended),
            "a run of each, as it should end",
        )
    assert "the baseline answered 10 of 10" in rankwatch("show feed.a").stdout
    assert set(world.baseline.attempts.values()) == {2}


LISTS = pull({"u1": [1, 2], "u2": [3, 4]})


def family(baseline, asked, *candidates):
    """The pulls of two candidates' runs."""
    b, c = candidates or (Canned(LISTS), Canned(LISTS))
    shared = SharedAnswers()
    opened = replace(arms(None, None, asked), baseline=baseline)
    named = [
        replace(comparison(name=name), family="feed", arms=("v1", name))
        for name in ("feed.b", "feed.c")
    ]
    both = [
        (each, shared.shared_by(each, replace(opened, candidate=own)))
        for each, own in zip(named, (b, c), strict=True)
    ]
    return [
        partial(
            lambda what, own: pull_all(what, own, draw_panel(what, own, SLOT, 10), SLOT, 10), *each
        )
        for each in both
    ]


def test_a_run_that_starts_during_a_pull_of_the_baseline_waits_for_the_same_answer():
    baseline = Canned(threading.Event())
    b = Canned(LISTS)
    c = Canned(LISTS)
    runs = [BackgroundCall(run, name="run") for run in family(baseline, users("u1", "u2"), b, c)]
    wait_for(lambda: baseline.requests, "a pull")
    baseline.answer.set()
    assert all(run.wait(Deadline.after(60)).asked.count == 2 for run in runs)
    assert len(baseline.requests) == 1
    assert {each.together for each in (*b.requests, *c.requests)} == {baseline.requests[0].together}


def test_a_failed_pull_fails_all_candidates_and_the_next_run_pulls_again():
    baseline = Canned(SourceError("the table is gone", permanent=True))
    run_b, run_c = family(baseline, users("u1", "u2"))
    for run in run_b, run_c:
        assert next(run().batches(10)).baseline.notes == {
            CoverageReason.UNAVAILABLE: "the table is gone"
        }
    assert len(baseline.requests) == 1
    baseline.answer = LISTS
    for run, pulls in ((run_b, 2), (run_b, 3), (run_c, 3), (run_c, 4)):
        assert not next(run().batches(10)).baseline.failures
        assert len(baseline.requests) == pulls


def test_lists_of_other_users_are_not_shared():
    baseline = Canned(LISTS)
    asked = users("u1", "u2")
    run_b, run_c = family(baseline, asked)
    run_b()
    asked.names = ("u1", "u3")  # of which b reads anew, and so c
    run_b()
    run_c()
    assert [list(each.users) for each in baseline.requests] == [["u1", "u2"], ["u1", "u3"]]
