"""Configures logs. Each event is one line: text on a terminal, JSON elsewhere.

Tracebacks do not show local variables.
"""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TextIO

import structlog

from monitor.model.errors import MonitorError, describe_fault

log = structlog.get_logger(__name__)

_OURS = "monitor"
_QUIET = {
    # The daemon itself counts and logs overlapping and failing jobs.
    "apscheduler.scheduler": logging.ERROR,
    "apscheduler.executors": logging.CRITICAL + 1,
    # These libraries log complete URLs and answers of other programs. Nothing is lost, because they
    # also raise their errors.
    **dict.fromkeys(("aiohttp", "apprise", "urllib3"), logging.CRITICAL + 1),
}
"""The lowest level that is logged, for libraries that log too much."""


def _is_written(record: logging.LogRecord) -> bool:
    """Return whether to log a record. Libraries may log only warnings and errors.

    Their other records contain requests, and requests contain secrets.
    """
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] == _OURS


def _write_fault(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    stream.write(f": {describe_fault(exc_info[1])}")


def configure_logs(
    format_: Literal["auto", "console", "json"],
    level: str,
    stream: TextIO | None = None,
    *,
    shows_tracebacks: bool = True,
) -> None:
    """Configure structlog, and route the logs of libraries through it.

    Logs are written to the stream. The default is standard error. Without ``shows_tracebacks`` the
    console shows only the type and the place of an error.
    """
    as_json = format_ == "json" or (format_ == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderers: list[structlog.typing.Processor] = [
        structlog.processors.ExceptionRenderer(format_traceback),
        structlog.processors.JSONRenderer(),
    ]
    if not as_json:
        write_error = _print_traceback if shows_tracebacks else _write_fault
        colors = sys.stderr.isatty()
        renderers = [structlog.dev.ConsoleRenderer(exception_formatter=write_error, colors=colors)]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level.upper()),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *renderers,
            ],
        )
    )
    handler.addFilter(_is_written)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    least = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(least, logging.WARNING))
    logging.getLogger(_OURS).setLevel(least)
    for name, library_least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, library_least))


def format_traceback(exc_info: structlog.typing.ExcInfo) -> str:
    """Return the traceback of an error and of its causes.

    Only errors of this program are shown with their message, because other messages may quote ids.
    """
    lines = list[str]()
    for error in reversed(list(_shown_chain(exc_info[1]))):
        lines += ["Traceback (most recent call last):\n", *traceback.format_tb(error.__traceback__)]
        text = f": {error}" if isinstance(error, MonitorError) else ""
        lines.append(f"{type(error).__qualname__}{text}\n")
    return "".join(lines).rstrip()


def _shown_chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        cause = error.__cause__
        if cause is None and not error.__suppress_context__:
            cause = error.__context__
        error = cause


def _print_traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    stream.write(format_traceback(exc_info))


@contextmanager
def errors_logged(event: str, **about: object) -> Iterator[None]:
    """Log a MonitorError that ends the block, and continue after the block.

    Other errors are raised.
    """
    try:
        yield
    except MonitorError as error:
        log.error(event, reason=str(error), **about)  # noqa: TRY400 - its text says all
