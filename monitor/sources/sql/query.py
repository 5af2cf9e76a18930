"""Parses a query: finds the names that it binds, and makes the text to execute.

Names in strings and comments are not bound.
"""

import re
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from monitor.model.immutable import immutable

USERS_FORM = "write WHERE user_id IN :users"
_BACKSLASHES = frozenset({"mysql", "mariadb"})  # in these dialects, strings have escapes
_WITH_ARRAYS = frozenset({"postgresql", "postgres"})
_STRING = {
    True: r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|\#[^\n]*",
    False: r"[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
    r"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$",
}
_COMMENT = r"--[^\n]*|/\*.*?\*/"
_NAME = re.compile(r"(?:(?<![:\w\\])|(?<=\bIN)):([A-Za-z_]\w*)", re.IGNORECASE)
_LIST_BEFORE = re.compile(
    r"(?:\bIN|(?<![<>!=])=\s*(?:ANY|SOME))\s*(?P<open>(?:\(\s*)*)$", re.IGNORECASE
)
_FUNCTION_BEFORE = re.compile(r"\b(?!IN\b)\w+\s*\(\s*$", re.IGNORECASE)
_CAST_AFTER = re.compile(r"\s*\)?\s*::\s*\w[\w\s()]*\[\s*\]")


@immutable
class SelectStatement:
    """A SELECT as it is executed.

    ``problem`` says why it cannot be executed and what to write. It is None if there is no problem.
    """

    text: str
    names: frozenset[str]
    is_array: bool
    problem: str | None

    def statement(self) -> sa.TextClause:
        """Return the statement with the types of the names that it binds."""
        # The database itself finds the type of a value, but not the type of an array.
        kind = sa.ARRAY(sa.Text()) if self.is_array else sa.types.NullType()
        parameters: dict[str, sa.BindParameter[Any]] = {
            "users": sa.bindparam("users", expanding=not self.is_array, type_=kind),
            "slot": sa.bindparam("slot", type_=sa.DateTime(timezone=True)),
        }
        bound = [parameters[name] for name in sorted(self.names & parameters.keys())]
        return sa.text(self.text).bindparams(*bound)


@lru_cache(maxsize=256)
def parse_query(query: str, dialect: str) -> SelectStatement:
    """Return the query for this dialect of SQLAlchemy.

    ``user IN :users`` and ``user = ANY(:users)`` become lists of values. The first form may have
    parentheses. In PostgreSQL, ``:users`` may also be an array. It is an array in a function such
    as ``unnest(:users)``, and with a cast such as ``:users::text[]``.
    """
    code = _only_code(query, dialect)
    binds = list(_NAME.finditer(code))
    names = frozenset(bind[1] for bind in binds)
    pieces: list[str] = []
    forms = set[str]()
    problem = None
    end = 0
    for bind in binds:
        start, stop = bind.span()
        replacement = bind[0]
        if bind[1] == "users":
            span = _list_span(code, start, stop)
            if span is not None:
                start, stop = span
                replacement = "IN :users"
                forms.add("list")
            elif dialect in _WITH_ARRAYS and _is_array(code, start, stop):
                forms.add("array")
            else:
                problem = f"uses :users in a form that {dialect} does not accept: {USERS_FORM}"
        pieces += [_literal(query[end:start]), replacement]
        end = stop
    if len(forms) > 1:
        problem = f"uses :users both as a list and as an array: {USERS_FORM} everywhere"
    pieces.append(_literal(query[end:]))
    return SelectStatement(
        text="".join(pieces), names=names, is_array="array" in forms, problem=problem
    )


def _only_code(query: str, dialect: str) -> str:
    """Return the query, with comments and strings overwritten. It has the same length.

    Comments become blanks, and strings become quotes.
    """
    string = _STRING[dialect in _BACKSLASHES]

    def fill(match: re.Match[str]) -> str:
        if match[0].startswith(("--", "/*", "#")):
            return " " * len(match[0])
        return "'" * len(match[0])

    return re.sub(f"{_COMMENT}|{string}|`[^`]*`", fill, query, flags=re.DOTALL)


def _list_span(code: str, start: int, stop: int) -> tuple[int, int] | None:
    """Return the start and end of the text that becomes ``IN :users``, with its parentheses.

    The result is None if the name does not follow IN or = ANY.
    """
    before = _LIST_BEFORE.search(code[:start])
    if before is None:
        return None
    count = before["open"].count("(")
    after = re.match(rf"(?:\s*\)){{{count}}}", code[stop:])
    if after is None or re.match(r"\s*(?:::|,)", code[stop:]):
        return None
    if code[before.start()] == "=" and not count:
        return None
    return before.start(), stop + after.end()


def _is_array(code: str, start: int, stop: int) -> bool:
    is_in_function = _FUNCTION_BEFORE.search(code[:start]) is not None
    return is_in_function or _CAST_AFTER.match(code[stop:]) is not None


def _literal(code: str) -> str:
    """Return the code with escaped colons. SQLAlchemy finds no names in it."""
    return re.sub(r"\\?:", r"\\:", code)
