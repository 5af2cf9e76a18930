"""Forces one way of aligning."""

import pytest

from monitor.kernels import alignment, inversions, positions


@pytest.fixture(params=["all pairs", "sorting", "as measured"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Align by this way whatever k is; ``as measured`` leaves the choice to the code."""
    if request.param != "as measured":
        longest = 255 if request.param == "all pairs" else 0
        for module in (alignment, inversions, positions):
            monkeypatch.setattr(module, "ALL_PAIRS_MAX_K", longest)
    return str(request.param)
