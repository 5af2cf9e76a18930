"""Who may look at this daemon's pages."""

from __future__ import annotations

import structlog

from monitor.settings import Settings
from monitor.web import Access, open_access

log = structlog.get_logger(__name__)


def let_in(settings: Settings, old: Access | None = None) -> Access:
    """As the web configuration file says; what is not honoured to the letter is logged. ConfigError: certificates are wrong.

    What has not changed since the ``old`` one was opened goes on.
    """
    access = open_access(settings.access, name=settings.web_config_file, old=old)
    for key, told in access.notes:
        log.warning("web configuration: not done to the letter", key=key, instead=told)
    return access
