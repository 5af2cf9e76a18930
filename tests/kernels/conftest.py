"""Forces one engine, and one way of aligning within it."""

import pytest

from monitor.kernels import alignment
from monitor.kernels.engines import choice, inversions, positions


@pytest.fixture(scope="session", autouse=True)
def _compiled(machine_code: None) -> None:
    """Before any test here."""


@pytest.fixture(params=["numpy", "numba"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Go over pairs by this engine; without this fixture it is numpy until a process has done very much."""
    monkeypatch.setenv(choice.VARIABLE, request.param)
    return str(request.param)


@pytest.fixture(params=["numpy, all pairs", "numpy, sorting", "numba, all pairs", "numba, hashing"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Align and count by this engine and in this way, however long the lists are; without this fixture the code chooses."""
    engine, way = request.param.split(", ")
    longest = 255 if way == "all pairs" else 0
    monkeypatch.setenv(choice.VARIABLE, engine)
    limit_all_pairs(monkeypatch, longest)
    if engine == "numba":
        from monitor.kernels.engines import compiled_pairs  # noqa: PLC0415 - only where numba is wanted

        monkeypatch.setattr(compiled_pairs, "PAIRS_MAX_K", longest)
    return str(request.param)


def limit_all_pairs(monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    """Compare items two by two up to this length of lists."""
    for module in (alignment, positions):
        monkeypatch.setattr(module, "ALL_PAIRS_MAX_K", longest)
    for limit in ("COUNT_ALL_PAIRS_MAX_K", "SUM_ALL_PAIRS_MAX_K"):
        monkeypatch.setattr(inversions, limit, longest)
