"""The gate of a real daemon, requested as the shipped manifests do, and compared with the command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest
import requests

import forking
from deploy.shipped import yaml_of
from places import read_yaml
from servers import require
from servers.daemon import serving, wait_for
from service.lists_world import APART, write_lists, write_world
from tables import rows

pytestmark = pytest.mark.integration


class World(NamedTuple):
    """A daemon with three days of two comparisons. The lists of ``home-feed`` are alike, and those of ``apart`` are not."""

    folder: Path
    url: str

    def get(self, path):
        return requests.get(f"{self.url}/api/v1/gate/{path}", timeout=60)


def run_in(folder, command, codes=(0,)):
    """Run this command of rankwatch in the folder."""
    done = forking.rankwatch(*command.split(), cwd=folder)
    assert done.returncode in codes, done.stderr
    return done


def here(text, name, url=""):
    """The text of a manifest, for this comparison and daemon, all runs and a margin for few users."""
    for old, new in (
        ("{{args.since}}", "2024-01-08"),
        ("2026-11-01", "2024-01-08"),
        ("0.05", "0.5"),
        ("http://rankwatch.rankwatch.svc:29108", url),
    ):
        text = text.replace(old, new)
    return text.replace("home-feed", name, 1)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rollouts")
    config = write_world(folder, "sqlite:///rankwatch.db", names=("home-feed", "apart"))
    write_lists(folder / "apart.jsonl", APART)
    text = config.read_text().replace("{all: true}", "{all: true, sample: {rotating: 40}}")
    config.write_text("apart.jsonl".join(text.rsplit("candidate.jsonl", 1)))
    run_in(folder, "replay --since 2024-01-08 --until 2024-01-09")
    with serving(config) as daemon:
        world = World(folder, daemon.url)
        asked = ("home-feed?margin=0.5", "apart?margin=0.5")
        wait_for(
            lambda: [world.get(path).json()["users"] for path in asked] == [120, 120],
            "the daemon's own runs",
        )
        yield world


def test_the_certificate_is_that_of_the_command(world):
    for code, path in enumerate(
        (
            "home-feed?margin=0.5",
            "apart?margin=0.5&alpha=0.05&metric=rbo",
            "home-feed?margin=0.01&since=2024-01-09&segment=all&reference=0.9",
        )
    ):
        options = path.replace("?", " --json --").replace("&", " --")
        done = run_in(world.folder, f"gate {options}", codes=(code,))
        answer = world.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json() | {"at": None} == json.loads(done.stdout) | {"at": None}


REFUSED = """
home-feed | 400 | margin: Field required. Parameters: margin, alpha, metric, segment, since, reference, verdict
home-feed?margin=0.5&since=soon | 400 | since: 'soon' is no ISO 8601 time
home-feed?margin=0.5&since=2024-01-01&since=2024-01-02 | 400 | since: give one time
home-feed?margin=5 | 409 | margin 5 is outside
home-feed?margin=0.5&segment=all&segment=country=DE | 409 | no segment 'country=DE'
home-feed?margin=0.1&margin=0.5&segmnt=all | 400 | a valid number; segmnt: Extra inputs are not permitted
nope?margin=0.5 | 404 | no comparison named nope
"""


def test_a_wrong_question_is_refused_with_a_reason_and_is_no_verdict(world):
    for path, status, words in rows(REFUSED):
        answer = world.get(path)
        hook = requests.post(answer.url, timeout=60)
        assert (str(answer.status_code), hook.status_code) == (status, answer.status_code)
        assert hook.json() == answer.json()
        assert words in answer.json()["reason"]


@pytest.mark.parametrize(
    "name, more, verdict",
    [("home-feed", "", "safe"), ("apart", "", "breach"), ("apart", "&alpha=1e-99", "inconclusive")],
)
def test_argo_reads_the_verdict_and_flagger_promotes_what_is_safe_and_rolls_back_a_breach(
    world, name, more, verdict
):
    published = read_yaml("tests/deploy/rollouts.yaml")
    shipped = {each: yaml_of(f"rollouts/{each}.yaml")["spec"] for each in published}
    for each, spec in shipped.items():
        jsonschema.validate(spec, published[each]["schema"])
    (metric,), hooks = (
        shipped["argo-rollouts"]["metrics"],
        shipped["flagger"]["analysis"]["webhooks"],
    )
    # Otherwise a run without a verdict would be a success.
    assert metric["failureLimit"] <= metric["inconclusiveLimit"] < metric["count"]
    assert metric["successCondition"] == 'result == "safe"'
    assert metric["failureCondition"] == 'result == "breach"'
    web = metric["provider"]["web"]
    read = requests.get(here(web["url"], name, world.url) + more, timeout=60)
    assert (read.status_code, read.json()[web["jsonPath"][3:-1]]) == (200, verdict)
    for hook, kind, wanted in zip(
        hooks, ("confirm-promotion", "rollback"), ("safe", "breach"), strict=True
    ):
        answer = requests.post(
            here(hook["url"], name, world.url) + more,
            json=published["flagger"]["request"],
            timeout=60,
        )
        assert (hook["type"], answer.status_code) == (kind, 200 if verdict == wanted else 409)
        assert answer.text.startswith(f"{verdict}: ")


@pytest.mark.parametrize("pipeline", ["github-actions.yaml", "gitlab-ci.yaml"])
def test_a_step_ends_with_the_gates_exit_code_and_leaves_a_summary(world, tmp_path, pipeline):
    found = yaml_of(f"rollouts/{pipeline}")
    if "jobs" in found:
        script = found["jobs"]["gate"]["steps"][-1]["run"]
    else:
        script = found["rollout-gate"]["script"][0]
    program = f"rankwatch() {{ (cd {world.folder}; {sys.executable} -m monitor $@); }}\n"
    env = os.environ | {"GITHUB_STEP_SUMMARY": "gate.md", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [require("bash"), "-ec", program + here(script, "apart")]
    done = subprocess.run(command, cwd=tmp_path, env=env, check=False)
    assert done.returncode == 1
    summary = (tmp_path / "gate.md").read_text()
    assert "### Rollout gate of home-feed\n```text\napart  margin 0.5" in summary


def test_a_question_is_judged_once_until_a_run_is_new(world):
    answers = [world.get("apart?margin=0.5").json() for _ in range(4)]
    assert len({each["at"] for each in answers}) <= 2, "ten minutes may end between two of them"
    newest = answers[-1]["judged_runs"][-1]
    run_in(world.folder, f"run-once --again --slot {newest['slot']} apart")
    assert world.get("apart?margin=0.5").json()["judged_runs"][-1]["run_id"] != newest["run_id"]
