"""JMESPath in options, and over answers in JSON, with `tensors` and `rows`, which http/profiles/README.md explains."""

import re
from collections.abc import Callable, Collection
from typing import Annotated, Any, cast

import jmespath
import numpy as np
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions, signature
from pydantic import AfterValidator


class NotAppliedError(ValueError):
    """An expression cannot be applied to an answer."""


_NAMES, _LONGEST_NAME = 5, 30
"""Fields of an answer, and codes of errors, that are named in a note."""

Find = Callable[[object], object]


def require_expression(expression: str) -> str:
    """The expression; ValueError where it is none."""
    try:
        jmespath.compile(expression)
    except JMESPathError as error:
        raise ValueError(
            f"is no JMESPath expression{_place_in(error)}: see jmespath.org for its syntax"
        ) from None
    return expression


def _place_in(error: JMESPathError) -> str:
    position = getattr(error, "lex_position", getattr(error, "lexer_position", None))
    token = getattr(error, "token_value", None)
    if position is None:
        return ""
    return f" (character {position + 1}{f', {token!r}' if token else ''})"


Expression = Annotated[str, AfterValidator(require_expression)]


class _TensorFunctions(Functions):
    @signature({"types": ["array"]})
    def _func_tensors(self, outputs: list[Any]) -> dict[str, object]:
        try:
            # Without data an array may have any number of rows.
            return {
                each["name"]: each["data"]
                and np.array(each["data"], object).reshape(each["shape"]).tolist()
                for each in outputs
            }
        except (KeyError, TypeError, ValueError) as error:
            raise JMESPathError from error

    @signature({"types": ["object"]})
    def _func_rows(self, columns: dict[str, object]) -> list[dict[str, object]]:
        arrays = {name: each for name, each in columns.items() if isinstance(each, list)}
        count = max(map(len, arrays.values()), default=0)
        return [
            {name: each[row] for name, each in arrays.items() if len(each) == count}
            for row in range(count)
        ]


_OPTIONS = jmespath.Options(custom_functions=_TensorFunctions())


def finder(expression: str) -> Find:
    """The function that finds the expression's value in an answer; NotAppliedError if it cannot."""
    compiled = jmespath.compile(expression)

    def find(answer: object) -> object:
        try:
            return cast("object", compiled.search(answer, options=_OPTIONS))
        except Exception as error:  # noqa: BLE001 - JMESPath raises whatever odd values lead to
            raise NotAppliedError(type(error).__name__) from None

    return find


def shape_of(answer: object, users: Collection[str] = ()) -> str:
    """What an answer looks like, without what it says: the names of its fields at most, none of ``users``."""
    if not isinstance(answer, dict):
        if not isinstance(answer, list):
            return "a single value"
        first = (
            f", the first {shape_of(answer[0], users)}"
            if answer and isinstance(answer[0], dict)
            else ""
        )
        return f"an array of {len(answer):,}{first}"
    hidden = set(users)
    names = [name if is_plain(name) and name not in hidden else "..." for name in answer]
    return (
        f"an object of {', '.join(names[:_NAMES])}{', ...' * (len(names) > _NAMES)}"
        if names
        else "an empty object"
    )


def is_plain(text: str) -> bool:
    """Whether the text may stand in a note: a short name or code."""
    return len(text) <= _LONGEST_NAME and re.fullmatch(r"[\w.~-]*", text, re.ASCII) is not None
