"""Chooses the engine for pairs of lists.

One engine is numpy. The other engine is machine code, compiled by numba. Both engines give the same
results. Only the speed differs.

The environment variable ``RANKWATCH_ENGINE`` selects the engine:

- ``auto`` is the default. It starts with numpy, and loads machine code if there is enough work. It
  stays with numpy if numba is not installed, if no directory can be used as a cache, or if the
  system forbids machine code (``MemoryDenyWriteExecute=yes``).
- ``numpy`` never uses machine code.
- ``numba`` always uses machine code. It raises an error if numba is not available.

The extra ``[fast]`` installs numba. Loading machine code takes 0.8 s of CPU time. Machine code
needs 90 to 120 MB of memory. Compiling takes about five seconds, once for each machine and version.
The cache of machine code is in `__pycache__` next to `compiled_pairs`, in the user's cache
directory, or in ``NUMBA_CACHE_DIR``. This command fills the cache in advance, for example in an
image: ``python -c "import monitor.measures.kernels.engines.compiled_pairs"``.
"""

import mmap
import os
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from monitor.model.errors import ConfigError
from monitor.texts.wording import write_extra

ENGINE_VARIABLE = "RANKWATCH_ENGINE"

MAX_K = 4096
"""The length of the longest lists that machine code aligns.

In longer lists, hash collisions could cost up to k**2 steps, and sums of ranks would not fit into
32 bits.
"""
WORTH_LOADING = 10_000_000_000
"""Machine code is loaded after numpy has made this many comparisons within ``PERIOD_S``.

A pair of lists of length k takes k**2 comparisons. numpy makes this number of comparisons in three
to eight seconds, depending on the length of the lists.
"""
PERIOD_S = 60.0
"""The length of a period. In each period, comparisons are counted from 0.

So a daemon with little work does not load machine code. It would save only a few seconds in an
hour.
"""


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
        self._comparisons = 0  # in this period
        self._is_refused = False
        self._compiled: ModuleType | None = None

    def compiled(self, comparisons: int = 0) -> ModuleType | None:
        """The module of machine code, or None if numpy must do the work.

        ``comparisons`` is the number of comparisons that this work takes. Raises ConfigError if the
        requested engine is not available.
        """
        engine = requested_engine()
        if engine is Engine.NUMPY:
            return None
        if self._compiled is None:
            with self._lock:
                if engine is Engine.NUMBA:
                    self._compiled = _load_or_raise()
                elif not self._is_refused and self._count_until_enough(comparisons):
                    try:
                        self._compiled = _load_or_raise()
                    except ConfigError:
                        self._is_refused = True
        return self._compiled

    def _count_until_enough(self, comparisons: int) -> bool:
        """Add to the comparisons of this period. Return whether they are worth loading the code."""
        now_s = self._monotonic()
        if now_s - self._period_began_s >= PERIOD_S:
            self._period_began_s = now_s
            self._comparisons = 0
        self._comparisons += comparisons
        return self._comparisons >= self._worth_loading


def requested_engine() -> Engine:
    """The engine that the environment variable names. Raises ConfigError for an unknown value."""
    name = os.environ.get(ENGINE_VARIABLE, "") or Engine.AUTO
    try:
        return Engine(name)
    except ValueError:
        raise ConfigError(
            f"{ENGINE_VARIABLE}={name}: set it to one of {', '.join(Engine)}"
        ) from None


def load_compiled() -> ModuleType:
    """The module of machine code. This call compiles it, unless it is in the cache."""
    return import_module("monitor.measures.kernels.engines.compiled_pairs")


def _load_or_raise() -> ModuleType:
    """The module of machine code. Raises ConfigError if this process cannot use machine code."""
    setting = f"{ENGINE_VARIABLE}={Engine.NUMBA}"
    if find_spec("numba") is None:
        raise ConfigError(f"{setting}: numba is not installed: {write_extra('fast')}")
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError:  # in this case LLVM would abort the process
        raise ConfigError(
            f"{setting}: this system forbids machine code, as systemd does with "
            "MemoryDenyWriteExecute=yes"
        ) from None
    try:
        return load_compiled()
    except RuntimeError:
        raise ConfigError(
            f"{setting}: numba found no directory for its machine code: set NUMBA_CACHE_DIR to a "
            "writable directory"
        ) from None


compiled = Engines().compiled
"""Call `Engines.compiled` for this process."""
