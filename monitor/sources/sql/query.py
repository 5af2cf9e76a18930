"""A query that binds names, parsed once: what it binds, and the text to execute.

Strings and comments bind nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

USERS_FORM = "write WHERE user_id IN :users"
_BACKSLASHES = frozenset({"mysql", "mariadb"})
"""Dialects whose strings have backslashes as escapes."""
_WITH_ARRAYS = frozenset({"postgresql", "postgres"})
_STRING = {
    True: r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|\#[^\n]*",
    False: r"[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$",
}
_COMMENT = r"--[^\n]*|/\*.*?\*/"
_NAME = re.compile(r"(?:(?<![:\w\\])|(?<=\bIN)):([A-Za-z_]\w*)", re.IGNORECASE)
_LIST_BEFORE = re.compile(
    r"(?:\bIN|(?<![<>!=])=\s*(?:ANY|SOME))\s*(?P<open>(?:\(\s*)*)$", re.IGNORECASE
)
_FUNCTION_BEFORE = re.compile(r"\b(?!IN\b)\w+\s*\(\s*$", re.IGNORECASE)
_CAST_AFTER = re.compile(r"\s*\)?\s*::\s*\w[\w\s()]*\[\s*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A SELECT as it is executed; ``problem`` says why it cannot be, with the form that works."""

    text: str
    names: frozenset[str]
    is_array: bool = False
    problem: str | None = None

    def statement(self) -> sa.TextClause:
        """The statement with the types of what it binds."""
        # The database knows the column's type; of an array it wants to know it.
        kind = sa.ARRAY(sa.Text()) if self.is_array else sa.types.NullType()
        known: dict[str, sa.BindParameter[Any]] = {
            "users": sa.bindparam("users", expanding=not self.is_array, type_=kind),
            "slot": sa.bindparam("slot", type_=sa.DateTime(timezone=True)),
        }
        return sa.text(self.text).bindparams(
            *(known[name] for name in sorted(self.names) if name in known)
        )


@lru_cache(maxsize=256)
def parse_query(query: str, dialect: str) -> Query:
    """The query for this dialect of SQLAlchemy.

    ``user IN :users``, with or without parentheses, and ``user = ANY(:users)`` become lists of
    values. In PostgreSQL ``:users`` may also be an array: in a function such as ``unnest(:users)``,
    or with a cast such as ``:users::text[]``."""
    code = _only_code(query, dialect)
    binds = list(_NAME.finditer(code))
    names = frozenset(bind[1] for bind in binds)
    pieces: list[str] = []
    forms = set[str]()
    problem = None
    end = 0
    for bind in binds:
        start, stop, text = *bind.span(), bind[0]
        if bind[1] == "users":
            if place := _list_place(code, start, stop):
                start, stop, text = *place, "IN :users"
                forms.add("list")
            elif dialect in _WITH_ARRAYS and _is_array(code, start, stop):
                forms.add("array")
            else:
                problem = f"uses :users in a form that {dialect} does not take: {USERS_FORM}"
        pieces += [_literal(query[end:start]), text]
        end = stop
    if len(forms) > 1:
        problem = f"uses :users both as a list and as an array: {USERS_FORM} everywhere"
    pieces.append(_literal(query[end:]))
    return Query(text="".join(pieces), names=names, is_array="array" in forms, problem=problem)


def _only_code(query: str, dialect: str) -> str:
    """The query with its comments blank and its strings struck out, each character at its place."""
    string = _STRING[dialect in _BACKSLASHES]

    def strike(found: re.Match[str]) -> str:
        is_comment = found[0].startswith(("--", "/*", "#"))
        return (" " if is_comment else "'") * len(found[0])

    return re.sub(f"{_COMMENT}|{string}|`[^`]*`", strike, query, flags=re.DOTALL)


def _list_place(code: str, start: int, stop: int) -> tuple[int, int] | None:
    """Where ``IN :users`` is put, if the name follows IN or = ANY with its parentheses."""
    before = _LIST_BEFORE.search(code[:start])
    if before is None:
        return None
    count = before["open"].count("(")
    after = re.match(rf"(?:\s*\)){{{count}}}", code[stop:])
    is_whole = after is not None and not re.match(r"\s*(?:::|,)", code[stop:])
    if after is None or not is_whole or (code[before.start()] == "=" and not count):
        return None
    return before.start(), stop + after.end()


def _is_array(code: str, start: int, stop: int) -> bool:
    is_in_function = _FUNCTION_BEFORE.search(code[:start]) is not None
    return is_in_function or _CAST_AFTER.match(code[stop:]) is not None


def _literal(text: str) -> str:
    """Text in which SQLAlchemy sees no name.

    A backslash before a colon is ours, as in texts of SQLAlchemy.
    """
    return re.sub(r"\\?:", r"\\:", text)
