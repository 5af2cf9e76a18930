"""Forces one way of aligning by numpy; loads the machine code, which `test_machine_code` holds against it."""

import fcntl

import pytest

from monitor.kernels import alignment
from monitor.kernels.engines import choice, positions


@pytest.fixture(scope="session")
def machine_code(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What numba compiles is loaded: one worker compiles it, and the others wait for its cache."""
    with (tmp_path_factory.getbasetemp().parent / "compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        choice.load()


@pytest.fixture(params=["all pairs", "sorting"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Align and count in this way, however long the lists are; without this fixture the code chooses."""
    limit_all_pairs(monkeypatch, 255 if request.param == "all pairs" else 0)
    return str(request.param)


def limit_all_pairs(monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    """Compare items two by two up to this length of lists."""
    for module in (alignment, positions):
        monkeypatch.setattr(module, "ALL_PAIRS_MAX_K", longest)
    for limit in ("COUNT_ALL_PAIRS_MAX_K", "SUM_ALL_PAIRS_MAX_K"):
        monkeypatch.setattr(positions, limit, longest)
