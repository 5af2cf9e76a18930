"""Opens a session of Spark Connect for one run. Its jobs are cancelled at the deadline."""

import re
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa

import monitor
from monitor.boundary.deadline import Deadline
from monitor.boundary.foreign_errors import log_error
from monitor.boundary.slot_templates import fill_slot
from monitor.model.errors import ConfigError, SourceError
from monitor.sources.columns import on_one_line
from monitor.sources.spark import SparkOptions
from monitor.texts.wording import write_extra

# pyspark ends a process whose main module is not a file, such as `python -c`. It assumes that its
# own tests run.
_main = sys.modules["__main__"]
_is_bare = not hasattr(_main, "__file__")
if _is_bare:
    _main.__file__ = ""
try:
    # The warning on pandas 3 is about parts of PySpark that rankwatch does not use.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.column import Column
    from pyspark.sql.connect import functions
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.dataframe import DataFrame
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # absent in its stubs
except ImportError:
    raise ConfigError(
        f"spark: the extra for Spark is not installed: {write_extra('spark')}"
    ) from None
finally:
    if _is_bare:
        del _main.__file__

CANCEL_S = 5.0
"""How long a server may take to cancel jobs. After this time, the connection is closed."""
_RETRIES = 4  # they take about 8 s
# With a limit, Spark measures the size of the batch after each row. For many rows without a list,
# the total time is quadratic.
_ANY_SIZE = ("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))

_REASONS = {
    r"\bUNAVAILABLE\b|failed to connect|Connection refused|Socket closed|RETRIES_EXCEEDED": (
        "no server answers: check remote, and check that Spark Connect runs there"
    ),
    r"\bUNAUTHENTICATED\b|\bPERMISSION_DENIED\b": (
        "the server refuses this user: check the token in remote"
    ),
    r"INVALID_HANDLE|SESSION_(?:CLOSED|CHANGED|NOT_FOUND)": (
        "the server lost the session, perhaps after a restart: the next run opens another one"
    ),
    r"No module named '(?P<name>numpy|pandas|pyarrow)"
    r"|PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION": (
        "the executors' Python has no {name}: install numpy>=2, pandas>=3 and pyarrow>=18 for it, "
        "or name another Python in conf: spark.sql.execution.pyspark.python"
    ),
    r"PYTHON_VERSION_MISMATCH": (
        "the executors have another Python than this machine: name one of the same version in "
        "conf: spark.sql.execution.pyspark.python"
    ),
    r"FILE_NOT_EXIST|FileNotFoundException|underlying files have been updated|CONCURRENT": (
        "a table was replaced while it was read: repeat the run of this slot, and from now on "
        "replace the whole table in one transaction"
    ),
    r"SourceError: (?P<name>[^\n]+)": "{name}",
    r"OPERATION_CANCELED|was cancelled": "the job was cancelled on the cluster",
    r"ExecutorLost|exited unexpectedly|crashed|OutOfMemory|Job aborted": (
        "the job was lost on the cluster, perhaps because an executor was killed or had too little "
        "memory: see the server's log"
    ),
}
"""The reason for each pattern. The first pattern that matches the text of Spark's error decides."""


@contextmanager
def open_session(options: SparkOptions, deadline: Deadline) -> Iterator[SparkSession]:
    """Open a session. At the deadline, its jobs are cancelled on the cluster.

    Errors of Spark and of the connection become SourceError.
    """
    remote = options.remote.get_secret_value()
    parts = urlsplit(remote)
    with _source_errors(f"{parts.hostname}:{parts.port or 15002}", deadline), ExitStack() as stack:
        session = SparkSession.builder.remote(remote).create()
        # By default, Spark retries for ten minutes if there is no server.
        session.client.set_retry_policies(
            [DefaultPolicy(max_retries=_RETRIES, initial_backoff=250, max_backoff=4000)]
        )
        stack.callback(_stop, session)
        for delay_s, end in ((0.0, session.interruptAll), (CANCEL_S, session.client.close)):
            timer = threading.Timer(deadline.remaining_s + delay_s, _call_ignoring_errors, [end])
            timer.daemon = True
            timer.start()
            stack.callback(timer.cancel)
        session.conf.set(*_ANY_SIZE)
        for name, value in options.conf.items():
            session.conf.set(name, value.get_secret_value())
        yield session


def ship_program(session: SparkSession) -> None:
    """Send this package to the executors, so that they can import it."""
    root = Path(monitor.__file__).parent
    with tempfile.TemporaryDirectory(prefix="rankwatch-") as folder:
        target = Path(folder) / "rankwatch.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(root.rglob("*.py")):
                name = path.relative_to(root.parent)
                content = path.read_text(encoding="utf-8")
                # The package is sent without the options of sources, because executors lack the
                # library for options.
                if name.name == "__init__.py" and "sources" in name.parts:
                    content = ""
                archive.writestr(str(name), content)
        session.addArtifacts(str(target), pyfile=True)


def open_table(
    session: SparkSession,
    options: SparkOptions,
    slot: datetime,
) -> tuple[DataFrame, str]:
    """Return the slot's table, and its name in errors. Raises SourceError if it does not exist."""
    where = fill_slot(options.table or options.path or "", slot)
    try:
        if options.table:
            frame = session.read.table(where)
        else:
            frame = session.read.format(options.format).load(where)
        frame.schema  # noqa: B018 - this asks the server
    except PySparkException as error:
        condition = error.getCondition() or ""
        if "NOT_FOUND" in condition or "NOT_EXIST" in condition:
            raise SourceError(
                f"{where} does not exist: check table or path, and check that the job "
                "which writes it has run",
                permanent=False,
            ) from None
        if condition.startswith(("FAILED_READ_FILE", "UNABLE_TO_INFER_SCHEMA")):
            raise SourceError(
                f"{where} cannot be read as {options.format} ({condition}): check the path and "
                "format, or write it again",
                permanent=False,
            ) from None
        raise
    return frame, where


def column_of(name: str) -> Column:
    """Return the column of this name. The name may have dots."""
    return functions.col("`" + name.replace("`", "``") + "`")


def text_of(name: str, read: Callable[[pa.Array], pa.Array]) -> Column:
    """The text that a function reads from the column. Executors call it with Arrow arrays."""
    text: Column = arrow_udf(read, "string")(column_of(name))
    return text


def _call_ignoring_errors(call: Callable[[], object]) -> None:
    # The server may no longer exist.
    with suppress(Exception):
        call()


def _stop(session: SparkSession) -> None:
    # Closing a session needs an answer of the server, which may hang.
    thread = threading.Thread(target=_call_ignoring_errors, args=[session.stop], daemon=True)
    thread.start()
    thread.join(CANCEL_S)


@contextmanager
def _source_errors(where: str, deadline: Deadline) -> Iterator[None]:
    try:
        yield
    except (PySparkException, grpc.RpcError, ValueError) as error:
        # A call on a closed channel raises ValueError.
        is_of_spark = isinstance(error, PySparkException | grpc.RpcError)
        if not is_of_spark and "closed channel" not in str(error):
            raise
        # A cancellation at the deadline can appear as any error.
        if deadline.is_past:
            reason = (
                "did not end in time and was cancelled: raise deadline, or give the cluster "
                "more executors"
            )
        else:
            reason = _reason(error)
        raise SourceError(f"Spark at {where}: {reason}", permanent=False) from None


def _reason(error: Exception) -> str:
    for pattern, template in _REASONS.items():
        match = re.search(pattern, str(error))
        if match:
            name = match.groupdict().get("name") or "numpy, pandas or pyarrow that is new enough"
            return template.format(name=on_one_line(name, 300))
    log_error(error)
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return f"the server reported {condition or type(error).__name__}: see its log"
