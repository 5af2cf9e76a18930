"""Chooses the engine for pairs of lists and for texts.

One engine is numpy with Arrow. The other engine is machine code, compiled by numba. Both engines
give the same results. Only the speed differs.

The environment variable ``RANKWATCH_ENGINE`` selects the engine:

- ``auto`` is the default. It starts with numpy, and loads machine code if there is enough work.
- ``numpy`` never uses machine code.
- ``numba`` always uses machine code. It raises an error if numba is not available.

Numba is the extra ``[fast]``. Loading its machine code takes 0.8 s of CPU time. Compiling takes ten
to twenty seconds, once for each machine and version. Machine code takes 90 to 120 MB of memory. So
``auto`` never loads it in a process with little work.

With ``auto``, numpy may work for so long within a minute that loading machine code would have paid
off. Then a child process of low priority fills numba's cache. The cache is in `__pycache__` next to
`compiled`, in the user's cache directory, or in ``NUMBA_CACHE_DIR``. The machine code is loaded
after the child process has ended without an error. So no call waits for the compiler.

In three cases ``auto`` stays with numpy and logs nothing:

- Numba is not installed.
- No directory can be used as a cache.
- The system forbids machine code (``MemoryDenyWriteExecute=yes``).

This command fills the cache in advance, for example in an image:
``python -c "from monitor.kernels.engines.choice import load; load()"``.
"""

import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from monitor.errors import ConfigError

VARIABLE = "RANKWATCH_ENGINE"

MAX_K = 4096
"""The length of the longest lists that machine code aligns.

In longer lists, hash collisions could cost up to k**2 steps, and sums of ranks would not fit into
32 bits.
"""
WORTH_LOADING = 4_000_000_000
"""Machine code is loaded after numpy has made this many comparisons within ``PERIOD_S``.

A pair of lists has k**2 comparisons. This number of comparisons takes one to three seconds. The
time depends on the length of the lists.
"""
PERIOD_S = 60.0
"""The length of a period. Comparisons are counted anew in each period.

So a daemon with little work does not load machine code, which would save it only seconds in an
hour.
"""
TEXT_COST = 200
"""The number of comparisons that take as long as coding one text by Arrow: about 100 ns."""


class Engine(StrEnum):
    """The values of ``RANKWATCH_ENGINE``."""

    AUTO = "auto"
    NUMPY = "numpy"
    NUMBA = "numba"


class Engines:
    """The engine of one process. It is thread-safe."""

    def __init__(
        self,
        worth_loading: int = WORTH_LOADING,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worth_loading = worth_loading
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._period_began_s = 0.0
        self._done = 0  # the number of comparisons in the present period
        self._child: subprocess.Popen[bytes] | None = None
        self._is_refused = False
        self._compiled: ModuleType | None = None

    def compiled(self, comparisons: int = 0) -> ModuleType | None:
        """The module of machine code, or None if numpy must do the work.

        ``comparisons`` is the size of this work. Raises ConfigError if the requested engine is not
        available.
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
        """Start the child process that compiles, or load the machine code if the child has ended.

        The child starts when a period has enough comparisons.
        """
        if self._is_refused:
            return
        if self._child is None:
            if self._count(comparisons) >= self._worth_loading:
                self._child = _start_compiling()
                self._is_refused = self._child is None
            return
        exit_code = self._child.poll()
        if exit_code == 0:
            self._load()
        elif exit_code is not None:
            self._is_refused = True

    def _count(self, comparisons: int) -> int:
        """Count comparisons. Returns how many the present period has."""
        now_s = self._monotonic()
        if now_s - self._period_began_s >= PERIOD_S:
            self._period_began_s = now_s
            self._done = 0
        self._done += comparisons
        return self._done

    def _load(self) -> None:
        reason = _obstacle()
        if reason is not None:
            raise ConfigError(f"{VARIABLE}={Engine.NUMBA}: {reason}")
        try:
            self._compiled = load()
        except RuntimeError:
            msg = (
                f"{VARIABLE}={Engine.NUMBA}: numba found no directory for its machine code: set "
                "NUMBA_CACHE_DIR to a writable directory"
            )
            raise ConfigError(msg) from None


def requested() -> Engine:
    """The engine that the environment variable names. Raises ConfigError for an unknown value."""
    name = os.environ.get(VARIABLE, "") or Engine.AUTO
    try:
        return Engine(name)
    except ValueError:
        raise ConfigError(f"{VARIABLE}={name}: set it to one of {', '.join(Engine)}") from None


def load() -> ModuleType:
    """The module of machine code. This call compiles it, unless it is in the cache."""
    return import_module("monitor.kernels.engines.compiled")


def _obstacle() -> str | None:
    """The reason why this process cannot use machine code. None if it can."""
    if find_spec("numba") is None:
        return "numba is not installed: install rankwatch[fast]"
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError:  # in this case LLVM would abort the process
        return "this system forbids machine code, as systemd does with MemoryDenyWriteExecute=yes"
    return None


_FILL_CACHE = """
import os
os.nice(10)
from monitor.kernels.engines import choice
choice.load()
"""


def _start_compiling() -> subprocess.Popen[bytes] | None:
    """Start a child process that fills the cache. It exits with 0 if the cache is complete.

    The result is None if no child process can do this.
    """
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
