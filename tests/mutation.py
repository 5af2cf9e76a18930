"""The share of small faults that the tests notice: ``python -m tests.mutation --count 300 monitor/alerts monitor/kernels``.

Each mutant is applied to a scratch copy of the checkout, in which the tests that belong to its module then run.
"""

import argparse
import ast
import json
import math
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import NamedTuple

import pandas as pd  # noqa: F401 - for the tests, as are those below
import pytest
import scipy.stats  # noqa: F401
import sqlalchemy  # noqa: F401

_PAIRS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn))
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult
}  # fmt: skip
_NOT_CODE = {"annotation", "returns", "decorator_list", "type_params"}
_SLOW = {"bench", "cli", "demo", "deploy", "killing", "service"}
"""Folders whose tests run only for mutants of the package of the same name: they start processes."""
_OPTIONS = ("-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--timeout=60")


class Mutant(NamedTuple):
    """One fault: where it is, which operator made it, what stands there before and after."""

    file: str
    site: int
    function: str
    line: int
    operator: str
    before: str
    after: str


def _sites(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str, ast.AST, Callable[[], None]]]:
    """Every place that can be mutated: function, node, operator, the node to put there, and what puts it there."""
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        function, node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".lstrip(".")
        for field, value in ast.iter_fields(node):
            for place, child in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(child, ast.AST) and field not in _NOT_CODE:
                    waiting.append((function, child))
                    for operator, other in _mutations(child):
                        yield function, child, operator, other, _replacement(node, field, place, other)


def _replacement(owner: ast.AST, field: str, place: int, other: ast.AST) -> Callable[[], None]:
    value = getattr(owner, field)
    return (lambda: value.__setitem__(place, other)) if isinstance(value, list) else (lambda: setattr(owner, field, other))


def _mutations(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(left=left, ops=[first, *more], comparators=others):
            yield "comparison", ast.Compare(left, [_OPPOSITE[type(first)](), *more], others)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            yield "arithmetic", ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", operand
        case ast.IfExp() | ast.If():
            negated = copy(node)
            negated.test = ast.UnaryOp(ast.Not(), node.test)
            yield "not", negated
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield from (("constant", ast.Constant(value + step)) for step in (-1, 1))
        case ast.Return(value=ast.AST()):
            yield "return None", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            yield "removed statement", ast.Pass()


def mutants_of(root: Path, file: str) -> list[Mutant]:
    sites = _sites(ast.parse((root / file).read_text(encoding="utf-8")))
    return [
        Mutant(file, site, function, getattr(node, "lineno", 0), operator, _first_line(node), _first_line(other))
        for site, (function, node, operator, other, _) in enumerate(sites)
    ]


def _first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node)).partition("\n")[0]


def _mutated(source: str, site: int) -> str:
    tree = ast.parse(source)
    list(_sites(tree))[site][-1]()
    return ast.unparse(ast.fix_missing_locations(tree))


def tests_of(root: Path, file: str) -> list[str]:
    """Tests of the package that name the module or what it defines, or all of them; and files elsewhere that import it."""
    package, dotted, stem = Path(file).parts[1], ".".join(Path(file).with_suffix("").parts), Path(file).stem
    defined = {getattr(node, "name", "_") for node in ast.parse((root / file).read_text(encoding="utf-8")).body}
    named = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in (dotted, *defined) if not name.startswith("_")))
    texts = {path.relative_to(root): path.read_text(encoding="utf-8") for path in sorted((root / "tests").rglob("test_*.py"))}
    own = [path for path in texts if path.parts[1] == package]
    near = [path for path in own if named.search(texts[path]) or stem in path.stem]
    far = [path for path in texts if path.parts[1] not in {package, *_SLOW} and dotted in texts[path]]
    return [str(path) for path in (*(near or own), *far)]


class _QuickestFirst:
    """Orders tests by how long they took without a fault: most faults are caught within a second.

    Only by the power of ten, so that the tests of a file mostly stay together and share what its fixtures cost.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "durations.json"
        self._known: dict[str, float] = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._took: defaultdict[str, float] = defaultdict(float)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: math.ceil(math.log10(self._known.get(item.nodeid, 0.0) + 0.01)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK:
            self._file.write_text(json.dumps(self._known | self._took))


def _run(folder: Path, tests: Sequence[str], limit_s: float) -> str:
    """Run the tests in a process forked from this one, which has loaded what takes long to load, but not the program."""
    child = multiprocessing.get_context("fork").Process(target=_pytest, args=(folder, tests))
    child.start()
    child.join(limit_s)
    if child.is_alive():
        os.killpg(child.pid or 0, signal.SIGKILL)
        child.join()
        return "hung"
    return "caught" if child.exitcode else "missed"


def _pytest(folder: Path, tests: Sequence[str]) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path.insert(0, str(folder))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    sys.exit(pytest.main([*_OPTIONS, *tests], plugins=[_QuickestFirst(folder)]))


def _outcomes(folder: Path, drawn: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Each mutant's; the tests run once without a fault, which says how long they may take with one."""
    limits: dict[tuple[str, ...], float] = {}
    for mutant in drawn:
        file, tests, began = folder / mutant.file, tuple(tests_of(folder, mutant.file)), time.monotonic()
        if tests not in limits and _run(folder, tests, 1200) != "missed":
            sys.exit(f"tests fail without a fault: {' '.join(tests)}")
        limit_s = limits.setdefault(tests, 20 + 3 * (time.monotonic() - began))
        source, times = file.read_text(encoding="utf-8"), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
        try:
            file.write_text(_mutated(source, mutant.site), encoding="utf-8")
            yield mutant, _run(folder, tests, limit_s)
        finally:
            file.write_text(source, encoding="utf-8")
            os.utime(file, ns=times)  # machine code that was compiled from it stays good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", help="files or folders to mutate, from the root of the checkout")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="another checkout")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    given = parser.parse_args()
    files = {file for path in given.paths for file in [given.root / path, *(given.root / path).rglob("*.py")] if file.is_file()}
    pool = [mutant for file in sorted(files) for mutant in mutants_of(given.root, str(file.relative_to(given.root)))]
    drawn = random.Random(given.seed).sample(pool, min(given.count, len(pool)))  # noqa: S311 - nothing secret
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutation-") as home:
        folder = Path(home) / "checkout"
        shutil.copytree(given.root, folder, ignore=shutil.ignore_patterns(".git", ".venv", ".hypothesis", ".*_cache"))
        for mutant, outcome in _outcomes(folder, drawn):
            counts[outcome] += 1
            sys.stdout.write(json.dumps({"outcome": outcome, **mutant._asdict()}) + "\n")
            sys.stdout.flush()
    share = 1 - counts["missed"] / counts.total()
    sys.stdout.write(f"{share:.1%} of {counts.total()} mutants caught, drawn from {len(pool)}: {dict(counts)}\n")


if __name__ == "__main__":
    main()
