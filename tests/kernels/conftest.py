"""Forces one way of aligning."""

import pytest

from monitor.kernels import alignment, inversions, positions


@pytest.fixture(params=["all pairs", "sorting"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Align by this way however long the lists are; without this fixture the code chooses."""
    longest = 255 if request.param == "all pairs" else 0
    for module in (alignment, inversions, positions):
        monkeypatch.setattr(module, "ALL_PAIRS_MAX_K", longest)
    return str(request.param)
