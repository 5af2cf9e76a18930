"""Both ways of numpy to align, and machine code: compiled in the second ring, as plain Python in the first."""

import fcntl
import inspect
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from monitor.measures.kernels import alignment
from monitor.measures.kernels.engines import choice, positions


def in_each_way(monkeypatch):
    """Force one way after the other: lists up to this length are compared item by item."""
    for way, longest in {"all pairs": 255, "sorting": 0}.items():
        monkeypatch.setattr(alignment, "ALL_PAIRS_MAX_K", longest)
        for limit in ("ALL_PAIRS_MAX_K", "COUNT_ALL_PAIRS_MAX_K", "SUM_ALL_PAIRS_MAX_K"):
            monkeypatch.setattr(positions, limit, longest)
        yield way


@pytest.fixture(
    scope="session", params=["interpreted", pytest.param("compiled", marks=pytest.mark.integration)]
)
def machine(request, tmp_path_factory):
    """The module of machine code; interpreted, its blocks of work are small."""
    if request.param == "interpreted":
        return _interpret()
    # One worker compiles, and the others wait for its cache.
    with (tmp_path_factory.getbasetemp().parent / "compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return choice.load_compiled()


def _interpret():
    """A copy of the module without numba, in which integers overflow silently too."""
    without_compiler = SimpleNamespace(njit=lambda *_, **__: lambda function: function)
    name = f"{choice.__package__}.compiled_pairs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numba", without_compiler)
        patch.setitem(sys.modules, name, choice)  # restored at the end
        del sys.modules[name]
        module = choice.load_compiled()
    constants(module.align_lists).update(PAIRS_TILE=2, HASH_TILE=2)
    for each in ("align_lists", "weigh_counts"):
        setattr(module, each, np.errstate(over="ignore")(getattr(module, each)))
    return module


def constants(function):
    """The names of the module in which the function was written."""
    return inspect.unwrap(function).__globals__
