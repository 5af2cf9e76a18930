"""A gate over real lists, with the noise floor of a second training and users drawn anew each day."""

from pathlib import Path

import pytest

from drift_lists import run_cli, source

SINCE = "2024-01-08"
EXITS = {"ok-seed": 0, "pop20": 1, "missing5": 2, "seg2-nonUK-pop": 1}
MARGIN = "0.1"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tmp_path_factory.mktemp("gate") / "rankwatch.yaml"
    comparisons = "".join(map(_comparison, EXITS))
    config.write_text(f"database: sqlite:///{config.parent}/rankwatch.db\nlisten: 127.0.0.1:0\ncomparisons:{comparisons}")
    run_cli("replay", "--from", SINCE, "--to", "2024-01-14", "--json", "--config", str(config))
    return config


def _comparison(name: str) -> str:
    return f"""
  - name: {name}
    every: 1d
    k: 10
    baseline: {source("baseline")}
    candidate: {source(name)}
    noise_floor: {{retrain: {source("again")}}}
    users: {{all: true, segments: [country], sample: {{rotating: 500}}}}
    metrics: [extended_tau]
    rules: []
"""


@pytest.mark.parametrize("name", EXITS)
def test_the_exit_code_says_what_was_done_to_the_lists(world: Path, name: str) -> None:
    (found,) = run_cli("gate", name, "--margin", MARGIN, "--json", "--config", str(world), code=EXITS[name])
    assert (found["judged"], found["users"], found["design"]) == ("noise_floor", 3500, "rotating")


def test_five_percent_missing_are_the_reason_for_no_verdict(world: Path) -> None:
    (found,) = run_cli("gate", "missing5", "--margin", MARGIN, "--json", "--config", str(world), code=2)
    assert found["reason"] == "no_data"
    assert found["missing"] > 100


def test_a_fault_in_one_country_is_named_and_the_other_is_safe(world: Path) -> None:
    arguments = ("--margin", MARGIN, "--segment", "each", "--json", "--config", str(world))
    (found,) = run_cli("gate", "seg2-nonUK-pop", *arguments, code=1)
    assert {each["segment"]: each["verdict"] for each in found["segments"]} == {"country=UK": "safe", "country=nonUK": "breach"}
