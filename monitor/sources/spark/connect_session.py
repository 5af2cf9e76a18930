"""One session of Spark Connect: opened for one reading, cancelled at its deadline, its errors one sentence each."""

import re
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import monitor
from monitor.deadline import Deadline
from monitor.errors import ConfigError, SourceError
from monitor.foreign_errors import note_error
from monitor.slot_templates import fill_slot
from monitor.sources.columns import on_one_line
from monitor.sources.spark import SparkOptions

# In a process whose main module is no file, such as ``python -c``, pyspark thinks that its own
# tests run, and ends the process.
_main = sys.modules["__main__"]
if _is_bare := not hasattr(_main, "__file__"):
    _main.__file__ = ""
try:
    # What it says of pandas 3 concerns parts that are not used here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.column import Column
    from pyspark.sql.connect import functions
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.dataframe import DataFrame
except ImportError:
    raise ConfigError(
        "spark: needs an extra: install it with pip install 'rankwatch[spark]'"
    ) from None
finally:
    if _is_bare:
        del _main.__file__

CANCEL_S = 5.0
"""How long after the deadline a server may take to cancel, before nothing more is asked of it."""
_RETRIES = 4  # within about 8 s
# With a limit Spark measures each batch row by row: of rows without a list that takes time in the
# square of their number.
_ANY_SIZE = ("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))

_REASONS = {
    r"\bUNAVAILABLE\b|failed to connect|Connection refused|Socket closed|RETRIES_EXCEEDED": "no server answers: check that "
    "Spark Connect runs there, and remote",
    r"\bUNAUTHENTICATED\b|\bPERMISSION_DENIED\b": "the server refuses this user: check the token in remote",
    r"INVALID_HANDLE|SESSION_(?:CLOSED|CHANGED|NOT_FOUND)": "the server lost the session, it may have been started anew: the "
    "next run opens another one",
    r"No module named '(?P<name>numpy|pandas|pyarrow)|PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION": "the executors' "
    "Python has no {name}: install numpy>=2, pandas>=3 and pyarrow>=18 there, or name another "
    "Python in "
    "conf: spark.sql.execution.pyspark.python",
    r"PYTHON_VERSION_MISMATCH": "the executors have another Python than this machine: name one of "
    "the same version in conf: spark.sql.execution.pyspark.python",
    r"FILE_NOT_EXIST|FileNotFoundException|underlying files have been updated|CONCURRENT": "a table was written anew while it "
    "was read: run the slot again, and replace tables as a whole",
    r"SourceError: (?P<name>[^\n]+)": "{name}",
    r"OPERATION_CANCELED|was cancelled": "the job was cancelled on the cluster",
    r"ExecutorLost|exited unexpectedly|crashed|OutOfMemory|Job aborted": "the job was lost on the cluster, an executor may "
    "have been killed or lack memory; the server's log says more",
}
"""What is said by what stands in Spark's error, the first that does."""


@contextmanager
def open_session(options: SparkOptions, deadline: Deadline) -> Iterator[SparkSession]:
    """A session of its own, whose work is cancelled on the cluster at the deadline.

    SourceError for what goes wrong in it.
    """
    parts = urlsplit(options.remote.get_secret_value())
    with _one_sentence(f"{parts.hostname}:{parts.port or 15002}", deadline), ExitStack() as ends:
        session = SparkSession.builder.remote(options.remote.get_secret_value()).create()
        # Otherwise it would ask a server that is gone for ten minutes.
        session.client.set_retry_policies(
            [DefaultPolicy(max_retries=_RETRIES, initial_backoff=250, max_backoff=4000)]
        )
        ends.callback(_stop, session)
        for after_s, end in ((0.0, session.interruptAll), (CANCEL_S, session.client.close)):
            timer = threading.Timer(deadline.remaining_s + after_s, _quietly, [end])
            timer.daemon = True
            timer.start()
            ends.callback(timer.cancel)
        session.conf.set(*_ANY_SIZE)
        for name, value in options.conf.items():
            session.conf.set(name, value.get_secret_value())
        yield session


def ship_program(session: SparkSession) -> None:
    """Have the executors import this package from what is sent there, whatever is installed on them."""
    root = Path(monitor.__file__).parent
    with tempfile.TemporaryDirectory(prefix="rankwatch-") as folder:
        target = Path(folder) / "rankwatch.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(root.rglob("*.py")):
                name = path.relative_to(root.parent)
                # Options of sources are for who configures: executors need no library for them.
                is_registry = name.name == "__init__.py" and "sources" in name.parts
                archive.writestr(str(name), "" if is_registry else path.read_text(encoding="utf-8"))
        session.addArtifacts(str(target), pyfile=True)


def open_table(
    session: SparkSession, options: SparkOptions, slot: datetime
) -> tuple[DataFrame, str]:
    """The slot's table, and what errors call it. SourceError when it is not there."""
    where = fill_slot(options.table or options.path or "", slot)
    try:
        frame = (
            session.read.table(where)
            if options.table
            else session.read.format(options.format).load(where)
        )
        frame.schema  # noqa: B018 - asks the server
    except PySparkException as error:
        condition = error.getCondition() or ""
        if "NOT_FOUND" in condition or "NOT_EXIST" in condition:
            msg = (
                f"{where} does not exist: check table or path, and that the job which writes "
                "it has run"
            )
            raise SourceError(msg, permanent=False) from None
        if condition.startswith(("FAILED_READ_FILE", "UNABLE_TO_INFER_SCHEMA")):
            what = f"{where} cannot be read as {options.format} ({condition})"
            msg = f"{what}: check the path and format, or write it again"
            raise SourceError(msg, permanent=False) from None
        raise
    return frame, where


def column_of(name: str) -> Column:
    """The column of this very name, whatever it holds."""
    return functions.col("`" + name.replace("`", "``") + "`")


def _quietly(call: object) -> None:
    # The server may be gone, and the run with it.
    with suppress(Exception):
        call()  # type: ignore[operator] # a bound method


def _stop(session: SparkSession) -> None:
    # Closing a session asks the server, which may hang.
    thread = threading.Thread(target=_quietly, args=[session.stop], daemon=True)
    thread.start()
    thread.join(CANCEL_S)


@contextmanager
def _one_sentence(where: str, deadline: Deadline) -> Iterator[None]:
    try:
        yield
    except (PySparkException, grpc.RpcError, ValueError) as error:
        # What is asked of a closed channel is a ValueError.
        if not isinstance(error, PySparkException | grpc.RpcError) and "closed channel" not in str(
            error
        ):
            raise
        # Cancelled at the deadline, which may surface as any error.
        if deadline.is_past:
            reason = (
                "did not end in time and was cancelled: raise deadline, or give the cluster "
                "more executors"
            )
        else:
            reason = _reason(error)
        raise SourceError(f"Spark at {where}: {reason}", permanent=False) from None


def _reason(error: Exception) -> str:
    text = str(error)
    for pattern, sentence in _REASONS.items():
        if found := re.search(pattern, text):
            name = on_one_line(
                found.groupdict().get("name") or "numpy, pandas or pyarrow that is new enough", 300
            )
            return sentence.format(name=name) if "{name}" in sentence else sentence
    note_error(error)
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return f"the server reported {condition or type(error).__name__}: its log says more"
