"""What a module logs, however logging was set up before."""

import structlog
from structlog.testing import LogCapture


def captured(monkeypatch, module):
    """Every line that the module's ``log`` is given from now on, of any level."""
    capture = LogCapture()
    monkeypatch.setattr(
        module,
        "log",
        structlog.wrap_logger(None, processors=[capture], wrapper_class=structlog.BoundLogger),
    )
    return capture
