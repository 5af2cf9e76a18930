"""JMESPath in options, and over answers in JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, cast

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator

NOT_APPLIED = (JMESPathError, RecursionError)
"""What is raised where an expression cannot be applied to an answer."""
_NAMES, _LONGEST_NAME = 5, 30
"""Fields of an answer that are named in a note."""

Find = Callable[[object], object]


def require_expression(expression: str) -> str:
    """The expression; ValueError where it is none."""
    try:
        jmespath.compile(expression)
    except JMESPathError as error:
        msg = f"is no JMESPath expression: {str(error).splitlines()[0]}"
        raise ValueError(msg) from None
    return expression


Expression = Annotated[str, AfterValidator(require_expression)]


def finder(expression: str) -> Find:
    """What finds the expression's value in an answer."""
    return cast("Find", jmespath.compile(expression).search)


def shape_of(answer: object) -> str:
    """What an answer looks like, without what it says: the names of its fields at most."""
    if not isinstance(answer, dict):
        return f"an array of {len(answer):,}" if isinstance(answer, list) else "a single value"
    names = [name if len(name) <= _LONGEST_NAME and re.fullmatch(r"[\w.~-]*", name, re.ASCII) else "..." for name in answer]
    return f"an object of {', '.join(names[:_NAMES])}{', ...' * (len(names) > _NAMES)}" if names else "an empty object"
