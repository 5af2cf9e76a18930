"""A gate over real lists, with the noise floor of a second training and users drawn anew each day."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from drift_lists import lists_folder
from monitor.cli.main import app

SINCE = "2024-01-08"
EXITS = {"ok-seed": 0, "pop20": 1, "missing5": 2, "seg2-nonUK-pop": 1}
MARGIN = "0.1"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tmp_path_factory.mktemp("gate") / "rankwatch.yaml"
    comparisons = "".join(map(_comparison, EXITS))
    config.write_text(f"database: sqlite:///{config.parent}/rankwatch.db\nlisten: 127.0.0.1:0\ncomparisons:{comparisons}")
    _run("replay", "--from", SINCE, "--to", "2024-01-14", "--json", "--config", str(config), code=0)
    return config


def _comparison(name: str) -> str:
    return f"""
  - name: {name}
    every: 1d
    k: 10
    baseline: {_source("baseline")}
    candidate: {_source(name)}
    noise_floor: {{retrain: {_source("again")}}}
    users: {{all: true, segments: [country], sample: {{rotating: 500}}}}
    metrics: [extended_tau]
    rules: []
"""


def _source(arm: str) -> str:
    return f'{{file: {{path: "{lists_folder()}/{arm}/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}'


def _run(*args: str, code: int) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, list(args))
    assert done.exit_code == code, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", EXITS)
def test_the_exit_code_says_what_was_done_to_the_lists(world: Path, name: str) -> None:
    (found,) = _run("gate", name, "--margin", MARGIN, "--json", "--config", str(world), code=EXITS[name])
    assert (found["judged"], found["users"], found["design"]) == ("noise_floor", 3500, "rotating")


def test_five_percent_missing_are_the_reason_for_no_verdict(world: Path) -> None:
    (found,) = _run("gate", "missing5", "--margin", MARGIN, "--json", "--config", str(world), code=2)
    assert found["reason"] == "no_data"
    assert found["missing"] > 100


def test_a_fault_in_one_country_is_named_and_the_other_is_safe(world: Path) -> None:
    arguments = ("--margin", MARGIN, "--segment", "each", "--json", "--config", str(world))
    (found,) = _run("gate", "seg2-nonUK-pop", *arguments, code=1)
    assert {each["segment"]: each["verdict"] for each in found["segments"]} == {"country=UK": "safe", "country=nonUK": "breach"}
