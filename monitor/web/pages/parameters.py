"""The parameters of pages and of the gate: reads them, and describes them in OpenAPI."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from starlette.requests import Request

from monitor.model.errors import InputError
from monitor.model.instants import read_since

LONGEST_TEXT = 500
"""The largest length of a name in a query. So headers and address fit into 16 kB."""
LONGEST_USER = 12_000
"""The largest length of a user's id in a query. So an address of ASCII fits into 16 kB."""
_LARGEST_NUMBER = 2**63 - 1
"""The largest number of a row in a database."""


def _read_since(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("give one time")  # noqa: TRY004 - pydantic reports it
    return read_since(value)


Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Slot = Annotated[datetime, BeforeValidator(_read_since)]


class PageQuery(BaseModel):
    """The parameters of a page. Other parameters are ignored."""


class ComparisonQuery(PageQuery):
    """What the page of a comparison shows."""

    metric: Text | None = Field(
        None,
        description="Metric to show. Default: the first one of the newest run. Unknown ones are "
        "ignored.",
    )
    segment: Text | None = Field(
        None, description="Segment to show. Default: all users. Unknown ones are ignored."
    )
    period: Text | None = Field(
        None, description="Period to show: 1d, 7d, 30d, 90d or 1y. Other periods are ignored."
    )
    since: Slot | None = Field(
        None,
        alias="from",
        description="First slot, such as 2024-01-08T00:00:00Z. It replaces the period.",
    )
    until: Slot | None = Field(
        None,
        alias="to",
        description="Last slot, such as 2024-01-08T00:00:00Z. The default is the newest slot.",
    )


class UserQuery(PageQuery):
    """The run of which the page of a user shows lists."""

    slot: Slot | None = Field(
        None,
        description="Slot of the run, such as 2024-01-08T00:00:00Z. The default is the newest "
        "slot.",
    )


class NamedUserQuery(UserQuery):
    """The same, for a user whose id is not in the path."""

    id: str = Field(max_length=LONGEST_USER, description="The id of the user.")


class AlertsQuery(PageQuery):
    """Which incidents the page of incidents shows."""

    comparison: Text | None = Field(None, description="Shows only incidents of this comparison.")
    severity: Literal["", "critical", "warning", "info"] | None = Field(
        None, description="Shows only incidents whose most severe alert has this severity."
    )
    state: Literal["", "firing", "ended"] | None = Field(
        None, description="Shows only firing incidents, or only ended ones."
    )
    text: str | None = Field(
        None,
        max_length=200,
        description="Text in an alert, a segment, a reason or an explanation, in upper or lower "
        "case.",
    )
    before: int | None = Field(
        None,
        ge=1,
        le=_LARGEST_NUMBER,
        description="Shows older ended incidents. The number is `next_page_before` of the "
        "previous page.",
    )


_PATH_DESCRIPTIONS = {
    "name": "The name of the comparison.",
    "slot": "Slot of the run, such as 2024-01-08T00:00:00Z.",
    "user": "The id of the user.",
    "key": "The key of the incident.",
}
_Model = TypeVar("_Model", bound=BaseModel)


def read_query(model: type[_Model], request: Request) -> _Model:
    """Return the parameters of the request.

    Raises InputError if a parameter is missing, cannot be read, or occurs twice.
    """
    values: dict[str, Any] = {}
    for name in request.query_params:
        given = request.query_params.getlist(name)
        values[name] = given if len(given) > 1 else given[0]
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults = "; ".join(
            f"{fault['loc'][0]}: {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors()
        )
        options = ", ".join(model.model_json_schema()["properties"])
        raise InputError(f"{faults}. Parameters: {options}") from None


def describe_query(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Return the parameters of a query in OpenAPI."""
    schema = model.model_json_schema()
    parameters = []
    for name, details in schema.get("properties", {}).items():
        described = {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": details.pop("description"),
            "schema": _without_null(details),
        }
        parameters.append(described)
    return parameters


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional value without null. A query cannot contain null."""
    without_null = {key: value for key, value in schema.items() if key != "anyOf"}
    for kind in schema.get("anyOf", ()):
        if kind != {"type": "null"}:
            without_null |= kind
    if without_null.get("default", "") is None:
        del without_null["default"]
    return without_null


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
        "description": _PATH_DESCRIPTIONS[name],
        "schema": schema,
    }
