"""Which engine is used, when, and what happens where there can be none."""

import mmap
import time
from typing import Any

import pytest

from monitor.errors import ConfigError
from monitor.kernels.engines import choice
from monitor.kernels.engines.choice import VARIABLE, Engines

pytestmark = pytest.mark.usefixtures("machine_code")


@pytest.fixture(autouse=True)
def _as_if_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list["Child"]:
    """Children are counted instead of started."""
    started: list[Child] = []

    def start() -> Child:
        started.append(Child())
        return started[-1]

    monkeypatch.setattr(choice, "_start_compiling", start)
    return started


class Child:
    """Ends when it is told to."""

    ended: int | None = None

    def poll(self) -> int | None:
        return self.ended


def test_little_work_is_numpys_and_starts_nothing(children: list[Child]) -> None:
    process = Engines(worth_loading=1_000)

    assert [process.compiled(300) for _ in range(3)] == [None] * 3
    assert not children


def test_much_work_starts_one_child_and_goes_on_with_numpy_until_it_has_ended(children: list[Child]) -> None:
    process = Engines(worth_loading=1_000)

    assert [process.compiled(600) for _ in range(5)] == [None] * 5
    assert len(children) == 1
    children[0].ended = 0
    assert process.compiled(1) is not None


def test_a_child_that_fails_leaves_numpy_for_good(children: list[Child]) -> None:
    process = Engines(worth_loading=0)
    process.compiled(1)
    children[0].ended = 1

    assert [process.compiled(1) for _ in range(3)] == [None] * 3
    assert len(children) == 1


def test_numpy_asked_for_is_numpy_however_much_there_is_to_do(children: list[Child], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "numpy")

    assert Engines(worth_loading=0).compiled(10**15) is None
    assert not children


def test_numba_asked_for_is_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "numba")

    assert Engines().compiled() is not None


def test_an_unknown_engine_is_an_error_that_names_the_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "numbat")

    with pytest.raises(ConfigError, match=r"^RANKWATCH_ENGINE=numbat: must be one of auto, numpy, numba$"):
        Engines().compiled()


def forbid_machine_code(*_: object, **__: Any) -> None:
    raise PermissionError


def test_where_machine_code_is_forbidden_numba_is_an_error_and_auto_is_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "mmap", forbid_machine_code)

    assert [Engines(worth_loading=0).compiled(1) for _ in range(2)] == [None, None]
    monkeypatch.setenv(VARIABLE, "numba")
    with pytest.raises(ConfigError, match="forbids to make machine code"):
        Engines().compiled()


def test_without_numba_numba_is_an_error_that_names_the_extra_and_auto_is_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda _: None)

    assert Engines(worth_loading=0).compiled(1) is None
    monkeypatch.setenv(VARIABLE, "numba")
    with pytest.raises(ConfigError, match=r"install rankwatch\[fast\]"):
        Engines().compiled()


def test_the_child_fills_the_cache_and_ends_well() -> None:
    process = Engines(worth_loading=0)

    process.compiled(1)
    until = time.monotonic() + 100
    while process.compiled(1) is None and time.monotonic() < until:
        time.sleep(0.05)

    assert process.compiled(1) is not None
