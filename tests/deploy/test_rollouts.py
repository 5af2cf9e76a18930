"""The gate on a real daemon's pages, asked as the shipped manifests ask, beside the command over the same database."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest
import requests
import yaml

import forking
from deploy.shipped import yaml_of
from servers import require
from servers.daemon import serving, wait_for
from service.lists_world import APART, write_lists, write_world
from tables import rows

pytestmark = pytest.mark.integration


class World(NamedTuple):
    """A daemon over three days of two comparisons: of ``home-feed`` both lists are alike, of ``apart`` nothing is."""

    folder: Path
    url: str

    def get(self, path):
        return requests.get(f"{self.url}/api/v1/gate/{path}", timeout=60)


def here(text, name, url=""):
    """What a manifest says, for this comparison, this daemon, all of its runs and as few users as it has."""
    text = text.replace("{{args.since}}", "2024-01-08").replace("2026-11-01", "2024-01-08")
    return (
        text.replace("0.05", "0.5")
        .replace("home-feed", name, 1)
        .replace("http://rankwatch.rankwatch.svc:29108", url)
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rollouts")
    config = write_world(folder, "sqlite:///rankwatch.db", every="1d", names=("home-feed", "apart"))
    write_lists(folder / "apart.jsonl", APART)
    text = config.read_text().replace("{all: true}", "{all: true, sample: {rotating: 40}}")
    config.write_text("apart.jsonl".join(text.rsplit("candidate.jsonl", 1)))
    assert (
        forking.rankwatch(
            "replay", "--since", "2024-01-08", "--until", "2024-01-09", cwd=folder
        ).returncode
        == 0
    )
    with serving(config) as daemon:
        world = World(folder, daemon.url)
        asked = ("home-feed?margin=0.5", "apart?margin=0.5")
        wait_for(
            lambda: [world.get(path).json()["users"] for path in asked] == [120, 120],
            "the daemon's own runs",
        )
        yield world


@pytest.mark.parametrize(
    ("name", "query", "code"),
    [
        ("home-feed", "margin=0.5", 0),
        ("apart", "margin=0.5&alpha=0.05&metric=rbo", 1),
        ("home-feed", "margin=0.01&since=2024-01-09&segment=all&reference=0.9", 2),
    ],
)
def test_the_certificate_is_that_of_the_command(world, name, query, code):
    done = forking.rankwatch(
        "gate", name, "--json", *(f"--{part}" for part in query.split("&")), cwd=world.folder
    )
    answer = world.get(f"{name}?{query}")
    assert (answer.status_code, answer.headers["content-type"], done.returncode) == (
        200,
        "application/json",
        code,
    )
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


@pytest.mark.parametrize(("path", "status", "words"), rows(REFUSED))
def test_what_cannot_be_asked_is_told_and_is_no_verdict(world, path, status, words):
    answer = world.get(path)
    hook = requests.post(answer.url, timeout=60)
    assert (str(answer.status_code), hook.status_code) == (status, answer.status_code)
    assert hook.json() == answer.json()
    assert words in answer.json()["reason"]


@pytest.mark.parametrize(
    ("name", "more", "verdict"),
    [("home-feed", "", "safe"), ("apart", "", "breach"), ("apart", "&alpha=1e-99", "inconclusive")],
)
def test_argo_reads_the_verdict_and_flagger_promotes_what_is_safe_and_rolls_back_a_breach(
    world, name, more, verdict
):
    published = yaml.safe_load(Path(__file__).with_name("rollouts.yaml").read_text())
    shipped = {each: yaml_of(f"rollouts/{each}.yaml")["spec"] for each in published}
    for each, spec in shipped.items():
        jsonschema.validate(spec, published[each]["schema"])
    (metric,), hooks = (
        shipped["argo-rollouts"]["metrics"],
        shipped["flagger"]["analysis"]["webhooks"],
    )
    assert metric["failureLimit"] <= metric["inconclusiveLimit"] < metric["count"], (
        "else no verdict is a success"
    )
    assert (metric["successCondition"], metric["failureCondition"]) == (
        'result == "safe"',
        'result == "breach"',
    )
    read = requests.get(here(metric["provider"]["web"]["url"], name, world.url) + more, timeout=60)
    assert (read.status_code, read.json()[metric["provider"]["web"]["jsonPath"][3:-1]]) == (
        200,
        verdict,
    )
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
    script = (
        found["jobs"]["gate"]["steps"][-1]["run"]
        if "jobs" in found
        else found["rollout-gate"]["script"][0]
    )
    program = f"rankwatch() {{ (cd {world.folder}; {sys.executable} -m monitor $@); }}\n"
    env = os.environ | {"GITHUB_STEP_SUMMARY": "gate.md", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [require("bash"), "-ec", program + here(script, "apart")],
        cwd=tmp_path,
        env=env,
        check=False,
    )
    assert done.returncode == 1
    assert (
        "### Rollout gate of home-feed\n```text\napart  margin 0.5"
        in (tmp_path / "gate.md").read_text()
    )


def test_a_question_is_judged_once_until_a_run_is_new(world):
    answers = [world.get("apart?margin=0.5").json() for _ in range(4)]
    assert len({each["at"] for each in answers}) <= 2, "ten minutes may end between two of them"
    newest = answers[-1]["judged_runs"][-1]
    assert (
        forking.rankwatch(
            "run-once", "--again", "--slot", newest["slot"], "apart", cwd=world.folder
        ).returncode
        == 0
    )
    assert world.get("apart?margin=0.5").json()["judged_runs"][-1]["run_id"] != newest["run_id"]
