"""Every regular expression in the program is linear: 100 kB of adverse text take no time.

Python's `re` keeps the interpreter's lock, so one slow expression stops the whole daemon.
"""

import ast
import importlib
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from re import _compiler, _parser  # type: ignore[attr-defined]  # how an expression is made up
from re._constants import (  # type: ignore[import-not-found]
    ANY,
    BRANCH,
    IN,
    LITERAL,
    MAX_REPEAT,
    MIN_REPEAT,
    NOT_LITERAL,
    SUBPATTERN,
)
from typing import Any

import pyarrow as pa
import pytest

from monitor.measures.reading import dialects
from monitor.measures.reading.numbers import number_column
from monitor.model.id_forms import make_speller
from places import ROOT

LENGTH = 100_000
LIMIT_S = 1.0
"""Of processor time.

A linear expression takes a few milliseconds, a quadratic one half a minute.
"""

AT_MOST = {
    ("alerts.notification_policy", "_MATCHER"): 1000,
    ("measures.metrics.metric", "_SHAPE"): 200,
    ("boundary.options", "_PART"): 1000,
    ("measures.pairing.id_mismatches", "_PAIR"): 400,
    ("measures.reading.dialects", "each.pattern"): 400,
}
"""The longest text that callers apply these expressions to, by module and name."""

OURS = """
# The style sheet of the program.
service.message_pictures
# The configuration file and queries, which the operator writes.
settings.yaml_document
sources.sql.query
# Certificates that the operator configures.
web.access
# Pages of the program, in which text from outside is escaped.
web.pages.report
""".splitlines()
"""Modules whose expressions never see text from outside, and what they see."""


@dataclass(frozen=True)
class Expression:
    """An expression, and the method that it is used by."""

    module: str
    name: str
    method: str
    pattern: re.Pattern[Any]


def expressions():
    """All expressions that a file of the program compiles or uses."""
    for path in sorted((ROOT / "monitor").rglob("*.py")):
        tree = ast.parse(path.read_text())
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if any(
            isinstance(node, ast.Import) and node.names[0].name == "re" for node in ast.walk(tree)
        ):
            yield from _of_module(importlib.import_module(name), tree)
    for each in dialects._DIALECTS:
        yield Expression(
            "measures.reading.dialects",
            "each.pattern",
            "fullmatch",
            re.compile(each.pattern, re.DOTALL),
        )


def _of_module(module, tree):
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, method = node.func.value, node.func.attr
        short = module.__name__.removeprefix("monitor.")
        name = owner.id if isinstance(owner, ast.Name) else ""
        found = vars(module).get(name)
        if isinstance(found, re.Pattern):
            yield Expression(short, name, method, found)
        elif found is re and method not in ("compile", "escape"):
            text = ast.unparse(node.args[0])
            flags = re.findall(r"\bre\.([A-Z]+)\b", ast.unparse(node))
            # A name that only a call has is a variable.
            with suppress(AttributeError, NameError):
                value = eval(text, {**vars(module), "name": "name", "pattern": "x"})  # noqa: S307 - our own source
                given = sum(getattr(re, flag) for flag in flags)
                yield Expression(short, text, method, re.compile(value, given))


def attacks(pattern, length):
    """Texts that match the beginning of an expression in many places, and never to the end."""
    text = (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    )
    parts = {"1", "a", " ", *_beginnings(_parser.parse(text, pattern.flags & re.VERBOSE))} - {""}
    for start, part in [("", each) for each in parts] + [(whole, whole[-1]) for whole in parts]:
        body = (start + part * (length // len(part) + 1))[:length]
        yield from (body, f"{body}\x7f")


def _beginnings(parsed):
    """An example of each beginning of a parsed expression, also within its groups and repetitions."""
    text = ""
    for kind, given in parsed:
        inner = _inner(kind, given)
        for each in inner:
            yield from (text + beginning for beginning in _beginnings(each))
        text += _example(kind, given, inner)
        yield text


def _inner(kind, given):
    if kind is SUBPATTERN:
        return [given[3]]
    if kind in (MAX_REPEAT, MIN_REPEAT):
        return [given[2]]
    return list(given[1]) if kind is BRANCH else []


def _example(kind, given, inner):
    if kind in (LITERAL, IN, ANY, NOT_LITERAL):
        one = _compiler.compile(_parser.SubPattern(_parser.State(), [(kind, given)]))
        return next(filter(one.match, map(chr, chain(b"1a ~", range(0x20000)))))
    whole = [*_beginnings(inner[0])][-1:] if inner else []
    least = given[0] if kind in (MAX_REPEAT, MIN_REPEAT) else 1
    return "".join(whole) * max(least, 1)


def within_limit(work):
    """Whether the work takes less processor time than the limit."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        work()
    except TimeoutError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return True


def apply(expression, text):
    """Use the expression as the program does."""
    given = text.encode() if isinstance(expression.pattern.pattern, bytes) else text
    use = getattr(expression.pattern, expression.method)
    if expression.method == "sub":
        return use(lambda found: found[0], given)
    return list(use(given)) if expression.method == "finditer" else use(given)


@pytest.mark.integration  # some seconds of CPU
def test_no_expression_takes_more_than_linear_time():
    slow, found = [], dict.fromkeys(expressions())
    assert {"receivers.slack", "measures.reading.ids", "sources.http.traces", "web.forms"} <= {
        each.module for each in found
    }
    for each in found:
        if each.module in OURS:
            continue
        length = AT_MOST.get((each.module, each.name), LENGTH)
        slow += [
            f"{each.module}: {each.name}.{each.method} of {text[:40]!r}..."
            for text in attacks(each.pattern, length)
            if not within_limit(partial(apply, each, text))
        ]

    assert slow == []


def test_a_quadratic_expression_is_found(monkeypatch):
    monkeypatch.setitem(globals(), "LIMIT_S", 0.1)
    quadratic = Expression("", "", "fullmatch", re.compile(r"\d+\.?\d*"))

    assert not all(
        within_limit(partial(apply, quadratic, text)) for text in attacks(quadratic.pattern, LENGTH)
    )


def test_an_expression_of_the_configuration_cannot_backtrack():
    adverse = [f"{'a' * 999}!"] * 100
    for pattern in ("([a-z]+)*-item", "((a?){20}){20}-item", "(a|a)*b"):
        spell = make_speller([{"regex": pattern}])
        assert within_limit(partial(spell, adverse))
        assert spell(adverse) == adverse


def test_a_long_text_in_a_column_of_numbers_is_no_number():
    for text in ["1" * LENGTH, f"{'1' * LENGTH}x", f"0.{'1' * LENGTH}"]:
        column = pa.array([text, "7"])
        assert within_limit(partial(number_column, column, "score", "the table"))
        numbers, is_bad = number_column(column, "score", "the table")
        assert is_bad.tolist() == [True, False]
        assert numbers[1] == 7


def test_an_id_that_is_a_long_number_stays_as_it_is():
    assert make_speller(["int"])(["0" * LENGTH]) == ["0" * LENGTH]
