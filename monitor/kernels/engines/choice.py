"""Which engine goes over pairs and texts: numpy and Arrow, or machine code by numba.

Both give the same; only speed differs.

``RANKWATCH_ENGINE`` decides: ``numpy``; ``numba``, at once, with an error where that cannot be; or
``auto``, the default. Numba is the extra ``[fast]``. Its machine code takes 0.8 s of a processor to
load, ten to twenty to make, once a machine and version, so ``auto`` starts with numpy. When numpy
has worked for about as long as loading would take, a child process of low priority makes sure that
the code lies in numba's cache (beside `compiled`, in the user's cache directory, or where
``NUMBA_CACHE_DIR`` says), and only when it has ended well is it loaded: nobody waits longer than
that. Where numba is absent, nothing can be cached, or the system forbids to make code
(``MemoryDenyWriteExecute=yes``), numpy goes on and nothing is logged. To fill the cache ahead of
time, as in an image: ``python -c "from monitor.kernels.engines.choice import load; load()"``."""

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
"""Longest lists for machine code: hashes that meet cost up to k**2, and sums of ranks are kept in 32 bits."""
WORTH_LOADING = 4_000_000_000
"""Comparisons by numpy, k**2 a pair, until loading is worth while: one to three seconds, by the length of lists."""
TEXT_COST = 200
"""Comparisons that take as long as the code of one text by Arrow: about 100 nanoseconds."""


class Engine(StrEnum):
    """What may be asked for."""

    AUTO = "auto"
    NUMPY = "numpy"
    NUMBA = "numba"


class Engines:
    """The engine of one process. Threads may share it."""

    def __init__(self, worth_loading: int = WORTH_LOADING) -> None:
        self._worth_loading = worth_loading
        self._lock = threading.Lock()
        self._done = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._is_refused = False
        self._compiled: ModuleType | None = None

    def compiled(self, comparisons: int = 0) -> ModuleType | None:
        """`compiled` where it is to be used for so many comparisons, None for numpy.

        ConfigError for an engine not here.
        """
        engine = asked()
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
        """Count, and take the next step towards machine code when it is due."""
        self._done += comparisons
        if self._is_refused or self._done < self._worth_loading:
            return
        if self._child is None:
            self._child = _start_compiling()
            self._is_refused = self._child is None
        elif (ended := self._child.poll()) is not None:
            self._is_refused = ended != 0
            if not self._is_refused:
                self._load()

    def _load(self) -> None:
        if reason := _obstacle():
            raise ConfigError(f"{VARIABLE}={Engine.NUMBA}: {reason}")
        try:
            self._compiled = load()
        except RuntimeError:
            what = "numba found no directory for its compiled code"
            msg = (
                f"{VARIABLE}={Engine.NUMBA}: {what}: let NUMBA_CACHE_DIR name a directory that "
                "can be written"
            )
            raise ConfigError(msg) from None


def asked() -> Engine:
    """The engine that the environment asks for; ConfigError for a word that is none."""
    word = os.environ.get(VARIABLE, "") or Engine.AUTO
    try:
        return Engine(word)
    except ValueError:
        raise ConfigError(f"{VARIABLE}={word}: must be one of {', '.join(Engine)}") from None


def load() -> ModuleType:
    """The module of machine code, compiled now unless it lies in the cache."""
    return import_module("monitor.kernels.engines.compiled")


def _obstacle() -> str | None:
    """Why there can be no machine code here, or None."""
    if find_spec("numba") is None:
        return "numba is not installed: install rankwatch[fast]"
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError:  # LLVM would end the process
        return (
            "this system forbids to make machine code, as systemd does with "
            "MemoryDenyWriteExecute=yes"
        )
    return None


_FILL_CACHE = """
import os
os.nice(10)
from monitor.kernels.engines import choice
choice.load()
"""


def _start_compiling() -> subprocess.Popen[bytes] | None:
    """A child that compiles what is not in the cache yet, and ends with 0 when all is there.

    None where that is hopeless.
    """
    if not sys.executable or _obstacle():
        return None
    paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        return subprocess.Popen(  # noqa: S603 - this very Python, and nothing from outside
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
