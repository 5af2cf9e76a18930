"""What a module logs, whoever set up logging before."""

import pytest
import structlog
from structlog.testing import LogCapture


def captured(monkeypatch: pytest.MonkeyPatch, module: object) -> LogCapture:
    """Every line that the module's ``log`` is given from now on, of any level."""
    capture = LogCapture()
    monkeypatch.setattr(
        module,
        "log",
        structlog.wrap_logger(None, processors=[capture], wrapper_class=structlog.BoundLogger),
    )
    return capture
