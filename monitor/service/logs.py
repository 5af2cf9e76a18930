"""Logs: one line an occurrence, for people on a terminal, as JSON elsewhere.

Tracebacks without local variables.
"""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TextIO

import structlog

from monitor.errors import MonitorError, describe_fault

log = structlog.get_logger(__name__)

_OURS = "monitor"
_QUIET = {
    # Overlapping and failing jobs are counted and logged by the daemon, which gets them as events.
    "apscheduler.scheduler": logging.ERROR,
    "apscheduler.executors": logging.CRITICAL + 1,
    # These log addresses with their paths and queries, and answers of others; their errors are
    # raised as well.
    **dict.fromkeys(("aiohttp", "apprise", "urllib3"), logging.CRITICAL + 1),
}
"""Libraries of which not even all warnings are logged, and from which level on they are."""


def _is_written(record: logging.LogRecord) -> bool:
    """Whether a line is a warning or of this program: below warnings libraries log requests, with their secrets."""
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] == _OURS


class _OpenStreamHandler(logging.StreamHandler[TextIO]):
    # A hung thread may outlive its daemon and its standard error.
    def emit(self, record: logging.LogRecord) -> None:
        if not self.stream.closed:
            super().emit(record)


def _write_fault(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    stream.write(f": {describe_fault(exc_info[1])}")


def configure(
    format_: Literal["auto", "console", "json"],
    level: str,
    stream: TextIO | None = None,
    *,
    shows_tracebacks: bool = True,
) -> None:
    """Set up structlog and let what libraries log pass through it, on the stream (standard error) until it is closed.

    Without ``shows_tracebacks`` the console shows the type and the place of an error only.
    """
    as_json = format_ == "json" or (format_ == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    write_error = _print_traceback if shows_tracebacks else _write_fault
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            exception_formatter=write_error, colors=sys.stderr.isatty()
        )
    )
    last: list[structlog.typing.Processor] = (
        [structlog.processors.ExceptionRenderer(format_traceback)] if as_json else []
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level.upper()),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = _OpenStreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *last,
                renderer,
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
    """The traceback of an error and of those behind it.

    Texts of other programs' errors can quote ids, so they are left out.
    """
    lines = list[str]()
    for each in reversed(list(_shown_chain(exc_info[1]))):
        lines += ["Traceback (most recent call last):\n", *traceback.format_tb(each.__traceback__)]
        text = f": {each}" if isinstance(each, MonitorError) else ""
        lines.append(f"{type(each).__qualname__}{text}\n")
    return "".join(lines).rstrip()


def _shown_chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _print_traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    stream.write(format_traceback(exc_info))


@contextmanager
def errors_logged(event: str, **about: object) -> Iterator[None]:
    """Log an error that ends the block, and go on behind it; a defect is raised."""
    try:
        yield
    except MonitorError as error:
        log.error(event, reason=str(error), **about)  # noqa: TRY400 - its text says all
