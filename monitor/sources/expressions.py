"""Checks JMESPath expressions in options, and applies them to answers in JSON.

rankwatch adds the functions `tensors` and `rows`. `docs/reference/http-profiles.md` explains them.
"""

import re
from collections.abc import Callable, Collection
from typing import Annotated, Any, cast

import jmespath
import numpy as np
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions, signature
from jmespath.visitor import TreeInterpreter
from pydantic import AfterValidator


class NotAppliedError(ValueError):
    """An expression cannot be applied to an answer."""


_MOST_FIELDS = 5  # the largest number of an answer's fields that a note names
_LONGEST_NAME = 30  # the longest name of a field, or error code, that a note shows

Find = Callable[[object], object]


def require_expression(expression: str) -> str:
    """Return the expression. Raises ValueError if its syntax is wrong."""
    try:
        jmespath.compile(expression)
    except JMESPathError as error:
        raise ValueError(
            f"is not a JMESPath expression{_position_of(error)}: see jmespath.org for the syntax"
        ) from None
    return expression


def _position_of(error: JMESPathError) -> str:
    position = getattr(error, "lex_position", getattr(error, "lexer_position", None))
    token = getattr(error, "token_value", None)
    if position is None:
        return ""
    shown = f"character {position + 1}"
    if token:
        shown += f", {token!r}"
    return f" ({shown})"


Expression = Annotated[str, AfterValidator(require_expression)]


class _TensorFunctions(Functions):
    @signature({"types": ["array"]})
    def _func_tensors(self, outputs: list[Any]) -> dict[str, object]:
        tensors = {}
        try:
            for output in outputs:
                data = output["data"]
                # An array without data stays empty, whatever its shape says.
                if data:
                    data = np.array(data, object).reshape(output["shape"]).tolist()
                tensors[output["name"]] = data
        except (KeyError, TypeError, ValueError) as error:
            raise JMESPathError from error
        return tensors

    @signature({"types": ["object"]})
    def _func_rows(self, columns: dict[str, object]) -> list[dict[str, object]]:
        arrays = {name: column for name, column in columns.items() if isinstance(column, list)}
        count = max(map(len, arrays.values()), default=0)
        full = {name: column for name, column in arrays.items() if len(column) == count}
        return [dict(zip(full, row, strict=True)) for row in zip(*full.values(), strict=True)]


_OPTIONS = jmespath.Options(custom_functions=_TensorFunctions())


def make_finder(expression: str) -> Find:
    """A function that applies the expression to an answer, or raises NotAppliedError."""
    parsed = jmespath.compile(expression).parsed
    # `search` of the compiled expression would make an interpreter for each answer.
    interpreter = TreeInterpreter(_OPTIONS)

    def find(answer: object) -> object:
        try:
            return cast("object", interpreter.visit(parsed, answer))
        except Exception as error:  # noqa: BLE001 - JMESPath raises any error for odd values
            raise NotAppliedError(type(error).__name__) from None

    return find


def shape_of(answer: object, users: Collection[str] = ()) -> str:
    """The form of an answer: its type, and names of its fields. Values are never shown.

    A field's name is hidden if it is the key of one of these users, or if `is_plain` is false.
    """
    if isinstance(answer, list):
        shape = f"an array of {len(answer):,}"
        if answer and isinstance(answer[0], dict):
            shape += f", the first {shape_of(answer[0], users)}"
        return shape
    if not isinstance(answer, dict):
        return "a single value"
    if not answer:
        return "an empty object"
    hidden = set(users)
    names = [name if is_plain(name) and name not in hidden else "..." for name in answer]
    shown = ", ".join(names[:_MOST_FIELDS])
    if len(names) > _MOST_FIELDS:
        shown += ", ..."
    return f"an object of {shown}"


def is_plain(name: str) -> bool:
    """Whether a name or code from outside is short and simple, so that a note may show it."""
    return len(name) <= _LONGEST_NAME and re.fullmatch(r"[\w.~-]*", name, re.ASCII) is not None
