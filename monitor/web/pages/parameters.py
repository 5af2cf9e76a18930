"""Parameters of pages, by name: how they are read, and how OpenAPI describes them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from monitor.errors import InputError
from monitor.model.instants import read_since

LONGEST_TEXT = 500
"""Characters of a name in a query: so headers and address stay below the server's 16 kB."""
LONGEST_USER = 12_000
"""Characters of a user's id in a query: one address of ASCII fits into the server's 16 kB."""
LARGEST_NUMBER = 2**63 - 1
"""The largest number that databases give to a row."""


def _read_since(given: object) -> datetime:
    if not isinstance(given, str):
        raise ValueError("give one time")  # noqa: TRY004 - pydantic reports it
    return read_since(given)


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
    "metric": "Metric to show; by default that of the newest run's first rule. An unknown one is ignored.",
    "segment": "Segment to show, by default all users. An unknown one is ignored.",
    "period": "1d, 7d, 30d, 90d or 1y. Another one is ignored.",
    "from": "First slot, such as 2024-01-08T00:00:00Z, in place of a period.",
    "to": "Last slot, such as 2024-01-08T00:00:00Z; by default the newest.",
    "slot": "Slot of the run, such as 2024-01-08T00:00:00Z; by default the newest.",
    "id": "The user.",
    "comparison": "Incidents of this comparison alone.",
    "severity": "Incidents whose most severe alert has this severity.",
    "state": "Incidents that fire, or that ended.",
    "text": "Incidents with this text in an alert, a segment, a reason or an explanation, in any case.",
    "before": "Ended incidents before this number: `older` of the page before.",
}

PATH_DESCRIPTIONS = {
    "name": "The comparison.",
    "slot": "Slot of the run, such as 2024-01-08T00:00:00Z.",
    "user": "The user.",
    "key": "The incident.",
}


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(KINDS[name])


def read_parameters(
    given: Mapping[str, str],
    required: Sequence[str],
    optional: Sequence[str],
) -> dict[str, Any]:
    """The values of a page's parameters; others are ignored.

    InputError for a parameter that is missing or cannot be read.
    """
    values: dict[str, Any] = {}
    faults = [f"{name}: is missing" for name in required if name not in given]
    for name in (*required, *optional):
        if name not in given:
            continue
        try:
            values[name] = _adapter(name).validate_python(given[name])
        except ValidationError as error:
            faults += [
                f"{name}: {each['msg'].removeprefix('Value error, ')}" for each in error.errors()
            ]
    if faults:
        raise InputError("; ".join(faults))
    return values


def describe_query(name: str, *, is_required: bool) -> dict[str, Any]:
    """A parameter of a query in OpenAPI."""
    schema = _adapter(name).json_schema()
    return {
        "name": name,
        "in": "query",
        "required": is_required,
        "description": DESCRIPTIONS[name],
        "schema": schema,
    }


def describe_path(name: str) -> dict[str, Any]:
    """A part of a path in OpenAPI."""
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
