"""Choose the engine for pairs and texts: numpy and Arrow, or machine code by numba.

Both engines give the same results. Only the speed differs.

``RANKWATCH_ENGINE`` selects the engine: ``numpy``; ``numba``, with an error if it is not available;
or ``auto``, the default. Numba is the extra ``[fast]``. Loading its machine code takes 0.8 s of CPU
time. Compiling takes ten to twenty seconds, once for each machine and version. So ``auto`` starts
with numpy. After numpy has worked for about as long as loading would take, a child process of low
priority fills numba's cache. The cache is in `__pycache__` next to `compiled`, in the user's cache
directory, or in ``NUMBA_CACHE_DIR``. The machine code is loaded only after the child has ended
without an error. So no call waits for the compiler.

If numba is not installed, nothing can be cached, or the system forbids machine code
(``MemoryDenyWriteExecute=yes``), numpy continues and nothing is logged. To fill the cache in
advance, for example in an image:
``python -c "from monitor.kernels.engines.choice import load; load()"``.
"""

import mmap
import os
import subprocess
import sys
import threading
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from monitor.errors import ConfigError

VARIABLE = "RANKWATCH_ENGINE"

MAX_K = 4096
"""Longest lists for machine code: hash collisions cost up to k**2, and rank sums have 32 bits."""
WORTH_LOADING = 4_000_000_000
"""Comparisons by numpy (k**2 a pair) before machine code is loaded.

They take one to three seconds, depending on the length of lists.
"""
TEXT_COST = 200
"""Comparisons that take as long as the code of one text by Arrow: about 100 nanoseconds."""


class Engine(StrEnum):
    """The values of ``RANKWATCH_ENGINE``."""

    AUTO = "auto"
    NUMPY = "numpy"
    NUMBA = "numba"


class Engines:
    """The engine of one process. It is thread-safe."""

    def __init__(self, worth_loading: int = WORTH_LOADING) -> None:
        self._worth_loading = worth_loading
        self._lock = threading.Lock()
        self._done = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._is_refused = False
        self._compiled: ModuleType | None = None

    def compiled(self, comparisons: int = 0) -> ModuleType | None:
        """`compiled`, or None if numpy shall do this number of comparisons.

        Raises ConfigError for an engine that is not available.
        """
        engine = requested()
        if engine is Engine.NUMPY:
            return None
        if self._compiled is None:
            with self._lock:
                if engine is Engine.NUMBA:
                    self._load()
                else:
                    self._consider(comparisons)
        return self._compiled

    def _consider(self, comparisons: int) -> None:
        """Count comparisons, and start or check the compiling child once there are enough."""
        self._done += comparisons
        if self._is_refused or self._done < self._worth_loading:
            return
        if self._child is None:
            self._child = _start_compiling()
            self._is_refused = self._child is None
            return
        exit_code = self._child.poll()
        if exit_code == 0:
            self._load()
        elif exit_code is not None:
            self._is_refused = True

    def _load(self) -> None:
        reason = _obstacle()
        if reason is not None:
            raise ConfigError(f"{VARIABLE}={Engine.NUMBA}: {reason}")
        try:
            self._compiled = load()
        except RuntimeError:
            msg = (
                f"{VARIABLE}={Engine.NUMBA}: numba found no directory for its compiled code: set "
                "NUMBA_CACHE_DIR to a writable directory"
            )
            raise ConfigError(msg) from None


def requested() -> Engine:
    """The engine of the environment variable. Raises ConfigError for an unknown value."""
    name = os.environ.get(VARIABLE, "") or Engine.AUTO
    try:
        return Engine(name)
    except ValueError:
        raise ConfigError(f"{VARIABLE}={name}: must be one of {', '.join(Engine)}") from None


def load() -> ModuleType:
    """The module of machine code. It is compiled now unless it is in the cache."""
    return import_module("monitor.kernels.engines.compiled")


def _obstacle() -> str | None:
    """Why machine code is not possible here, or None."""
    if find_spec("numba") is None:
        return "numba is not installed: install rankwatch[fast]"
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError:  # LLVM would abort the process
        return "this system forbids machine code, as systemd does with MemoryDenyWriteExecute=yes"
    return None


_FILL_CACHE = """
import os
os.nice(10)
from monitor.kernels.engines import choice
choice.load()
"""


def _start_compiling() -> subprocess.Popen[bytes] | None:
    """A child that fills the cache, and exits with 0 if it is complete. None if it cannot work."""
    if not sys.executable or _obstacle() is not None:
        return None
    paths = [str(Path(__file__).parents[3])]
    if os.environ.get("PYTHONPATH"):
        paths.append(os.environ["PYTHONPATH"])
    try:
        return subprocess.Popen(  # noqa: S603 - this Python, without arguments from outside
            [sys.executable, "-P", "-c", _FILL_CACHE],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


compiled = Engines().compiled
"""`Engines.compiled` of this process."""
