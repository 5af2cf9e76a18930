"""Who may look at this daemon's pages."""

from __future__ import annotations

import structlog

from monitor.settings import Settings, access_of
from monitor.web import Access, open_access

log = structlog.get_logger(__name__)


def let_in(settings: Settings) -> Access:
    """As the web configuration file says; what of it is not honoured to the letter is logged. ConfigError when it is wrong."""
    access = open_access(access_of(settings))
    for key, told in access.notes:
        log.warning("web configuration: not done to the letter", key=key, instead=told)
    return access
