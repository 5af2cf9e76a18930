"""The guide to choosing a measure keeps up with the measures."""

import re
from pathlib import Path

import pytest

from monitor.arm_metrics import ARM_METRICS
from monitor.metrics import METRICS, expected_by_chance, parse

FOLDER = Path(__file__).parents[2] / "monitor" / "metrics"
GUIDE = (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("name", [*METRICS, *ARM_METRICS])
def test_the_guide_tells_of_every_measure(name: str) -> None:
    assert f"`{name}`" in GUIDE


def test_every_measure_that_the_guide_writes_with_parameters_can_be_read() -> None:
    named = re.findall(r"`((\w+)\([^`]*\))`", GUIDE)

    written = [text for text, name in named if name in METRICS]
    assert "rbo(p=0.68)" in written
    for text in written:
        parse(text)


@pytest.mark.parametrize(("catalogue", "expected"), [(10, 0.63), (20, -0.18), (50, -0.67), (100, -0.84), (1000, -0.98)])
def test_chance_is_as_the_guide_says(catalogue: int, expected: float) -> None:
    found = expected_by_chance(parse("extended_tau"), 10, catalogue)

    assert found is not None
    assert round(found, 2) == expected
    assert str(expected).replace("-", "\N{MINUS SIGN}") in GUIDE
