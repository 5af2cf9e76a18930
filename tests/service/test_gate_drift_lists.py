"""A gate over real lists, with the noise floor of a second training and users drawn anew each day."""

from pathlib import Path

import pytest

from drift_lists import compare, run_cli, source, write_config

SINCE = "2024-01-08"
EXITS = {"ok-seed": 0, "missing5": 2, "seg2-nonUK-pop": 1}
MARGIN = "0.1"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rest = f"""    noise_floor: {{retrain: {source("again")}}}
    users: {{all: true, segments: [country], sample: {{rotating: 500}}}}
    metrics: [extended_tau]
    rules: []
"""
    config = write_config(tmp_path_factory.mktemp("gate"), *(compare(name, rest) for name in EXITS))
    run_cli("replay", "--from", SINCE, "--to", "2024-01-14", "--json", "--config", str(config))
    return config


@pytest.mark.parametrize("name", EXITS)
def test_the_exit_code_says_what_was_done_to_the_lists(world: Path, name: str) -> None:
    (found,) = run_cli("gate", name, "--margin", MARGIN, "--json", "--config", str(world), code=EXITS[name])
    assert (found["judged"], found["users"], found["design"]) == ("noise_floor", 3500, "rotating")
    assert (found["reason"] == "no_data", found["missing"] > 100) == ((name == "missing5",) * 2)


def test_a_fault_in_one_country_is_named_and_the_other_is_safe(world: Path) -> None:
    arguments = ("--margin", MARGIN, "--segment", "each", "--json", "--config", str(world))
    (found,) = run_cli("gate", "seg2-nonUK-pop", *arguments, code=1)
    assert {each["segment"]: each["verdict"] for each in found["segments"]} == {"country=UK": "safe", "country=nonUK": "breach"}
