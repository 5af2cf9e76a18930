"""Reads the parameters of pages, and describes them in OpenAPI."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from monitor.errors import InputError
from monitor.model.instants import read_since

LONGEST_TEXT = 500
"""The largest length of a name in a query. So headers and address fit into 16 kB."""
LONGEST_USER = 12_000
"""The largest length of a user's id in a query. So an address of ASCII fits into 16 kB."""
LARGEST_NUMBER = 2**63 - 1
"""The largest number of a row in a database."""


def _read_since(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("give one time")  # noqa: TRY004 - pydantic reports it
    return read_since(value)


Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Slot = Annotated[datetime, BeforeValidator(_read_since)]
Severities = Literal["", "critical", "warning", "info"]
States = Literal["", "firing", "ended"]

KINDS: Mapping[str, Any] = {
    "metric": Text,
    "segment": Text,
    "period": Text,
    "from": Slot,
    "to": Slot,
    "slot": Slot,
    "id": Annotated[str, Field(max_length=LONGEST_USER)],
    "comparison": Text,
    "severity": Severities,
    "state": States,
    "text": Annotated[str, Field(max_length=200)],
    "before": Annotated[int, Field(ge=1, le=LARGEST_NUMBER)],
}
"""The type of each parameter of a query."""

DESCRIPTIONS = {
    "metric": "Metric to show. Default: the first one of the newest run. Unknown ones are ignored.",
    "segment": "Segment to show. Default: all users. Unknown ones are ignored.",
    "period": "Period to show: 1d, 7d, 30d, 90d or 1y. Other periods are ignored.",
    "from": "First slot, such as 2024-01-08T00:00:00Z. It replaces the period.",
    "to": "Last slot, such as 2024-01-08T00:00:00Z. The default is the newest slot.",
    "slot": "Slot of the run, such as 2024-01-08T00:00:00Z. The default is the newest slot.",
    "id": "The id of the user.",
    "comparison": "Shows only incidents of this comparison.",
    "severity": "Shows only incidents whose most severe alert has this severity.",
    "state": "Shows only firing incidents, or only ended ones.",
    "text": "Text in an alert, a segment, a reason or an explanation, in upper or lower case.",
    "before": "Shows older ended incidents. The number is `next_page_before` of the previous page.",
}

PATH_DESCRIPTIONS = {
    "name": "The name of the comparison.",
    "slot": "Slot of the run, such as 2024-01-08T00:00:00Z.",
    "user": "The id of the user.",
    "key": "The key of the incident.",
}


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(KINDS[name])


def read_parameters(
    query: Mapping[str, str],
    required: Sequence[str],
    optional: Sequence[str],
) -> dict[str, Any]:
    """Return the values of a page's parameters. Other parameters are ignored.

    Raises InputError if a parameter is missing or cannot be read.
    """
    values: dict[str, Any] = {}
    faults = [f"{name}: is missing" for name in required if name not in query]
    for name in (*required, *optional):
        if name not in query:
            continue
        try:
            values[name] = _adapter(name).validate_python(query[name])
        except ValidationError as error:
            for fault in error.errors():
                faults.append(f"{name}: {fault['msg'].removeprefix('Value error, ')}")
    if faults:
        raise InputError("; ".join(faults))
    return values


def describe_query(name: str, *, is_required: bool) -> dict[str, Any]:
    """Return a parameter of a query in OpenAPI."""
    return {
        "name": name,
        "in": "query",
        "required": is_required,
        "description": DESCRIPTIONS[name],
        "schema": _adapter(name).json_schema(),
    }


def describe_path(name: str) -> dict[str, Any]:
    """Return a parameter of a path in OpenAPI."""
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
    if name == "user":
        schema["maxLength"] = LONGEST_USER
    if name == "slot":
        schema = {"type": "string", "format": "date-time"}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": PATH_DESCRIPTIONS[name],
        "schema": schema,
    }
