"""Logs: one line an occurrence, for people on a terminal, as JSON elsewhere; tracebacks without local variables."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog

_CHATTY = ("apscheduler", "alembic", "asyncio", "uvicorn", "sqlalchemy", "psycopg")
_TELLTALES = ("aiohttp", "apprise", "urllib3")
"""These log addresses with their paths and queries, and what others answered; what goes wrong there is raised as well."""


def configure(format_: Literal["auto", "console", "json"], level: str) -> None:
    """Set up structlog and let what libraries log pass through it, on standard error."""
    as_json = format_ == "json" or (format_ == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    traceback = structlog.dev.plain_traceback
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(exception_formatter=traceback, colors=sys.stderr.isatty())
    )
    last: list[structlog.typing.Processor] = [structlog.processors.format_exc_info] if as_json else []
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level.upper()),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    least = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(least)
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(max(least, logging.WARNING))
    for telltale in _TELLTALES:
        logging.getLogger(telltale).setLevel(logging.CRITICAL + 1)
