"""Reads the parameters of pages and of the gate, and describes them in OpenAPI."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from starlette.requests import Request

from monitor.model.errors import InputError
from monitor.model.instants import read_since

LONGEST_QUERY_TEXT = 500
"""The longest name in a query. With this limit, headers and address fit into 16 kB."""
LONGEST_QUERY_USER = 12_000
"""The longest user id in a query. With this limit, an address of ASCII fits into 16 kB."""
_LARGEST_NUMBER = 2**63 - 1
"""The largest row number that a database can store."""


def _read_since(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("give one time")  # noqa: TRY004 - pydantic reports it
    return read_since(value)


QueryText = Annotated[str, Field(max_length=LONGEST_QUERY_TEXT)]
Slot = Annotated[datetime, BeforeValidator(_read_since)]


class PageQuery(BaseModel):
    """The parameters of a page. Pages ignore all other parameters."""


class ComparisonQuery(PageQuery):
    """The parameters of the page of a comparison."""

    metric: QueryText | None = Field(
        None,
        description="The metric to show. By default it is the first metric of the newest run. An "
        "unknown metric is ignored.",
    )
    segment: QueryText | None = Field(
        None,
        description="The segment to show. By default all users. An unknown segment is ignored.",
    )
    period: QueryText | None = Field(
        None, description="The period to show: 1d, 7d, 30d, 90d or 1y. Others are ignored."
    )
    since: Slot | None = Field(
        None,
        alias="from",
        description="The first slot, such as 2024-01-08T00:00:00Z, instead of a period.",
    )
    until: Slot | None = Field(
        None,
        alias="to",
        description="The last slot, such as 2024-01-08T00:00:00Z. By default it is the newest "
        "slot.",
    )


class UserQuery(PageQuery):
    """The parameters of the page of a user."""

    slot: Slot | None = Field(
        None,
        description="The slot of the run that the page shows, such as 2024-01-08T00:00:00Z. By "
        "default it is the newest slot.",
    )


class NamedUserQuery(UserQuery):
    """The parameters of the page of a user whose id is not in the path."""

    id: str = Field(max_length=LONGEST_QUERY_USER, description="The id of the user.")


class AlertsQuery(PageQuery):
    """The parameters of the page of all incidents."""

    comparison: QueryText | None = Field(
        None, description="Shows only incidents of this comparison."
    )
    severity: Literal["", "critical", "warning", "info"] | None = Field(
        None, description="Shows only incidents whose most severe alert has this severity."
    )
    state: Literal["", "firing", "ended"] | None = Field(
        None, description="Shows only firing incidents, or only ended incidents."
    )
    text: str | None = Field(
        None,
        max_length=200,
        description="Shows only incidents with this text in an alert, a segment, a reason or an "
        "explanation. Upper and lower case are equal.",
    )
    before: int | None = Field(
        None,
        ge=1,
        le=_LARGEST_NUMBER,
        description="Shows the next page of ended incidents. The number is `next_page_before` of "
        "the previous page.",
    )


_PATH_DESCRIPTIONS = {
    "name": "The name of the comparison.",
    "slot": "The slot of the run, such as 2024-01-08T00:00:00Z.",
    "user": "The id of the user.",
    "key": "The key of the incident.",
}
_Model = TypeVar("_Model", bound=BaseModel)


def read_query(model: type[_Model], request: Request) -> _Model:
    """Read the parameters of the request.

    Raises InputError if a parameter is missing, cannot be read, or occurs twice.
    """
    values: dict[str, Any] = {}
    for name in request.query_params:
        texts = request.query_params.getlist(name)
        # The model refuses a list, so it refuses a parameter that occurs twice.
        values[name] = texts if len(texts) > 1 else texts[0]
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults = []
        for fault in error.errors():
            # pydantic adds this prefix to the message of a ValueError.
            message = fault["msg"].removeprefix("Value error, ")
            faults.append(f"{fault['loc'][0]}: {message}")
        options = ", ".join(model.model_json_schema()["properties"])
        raise InputError(f"{'; '.join(faults)}. Parameters: {options}") from None


def describe_query(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Describe the parameters of a query in OpenAPI."""
    schema = model.model_json_schema()
    parameters = []
    for name, details in schema.get("properties", {}).items():
        # In OpenAPI the description belongs to the parameter, and not to its schema.
        description = details.pop("description")
        described = {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": description,
            "schema": _without_null(details),
        }
        parameters.append(described)
    return parameters


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional value without null, because a query cannot contain null."""
    without_null = {key: value for key, value in schema.items() if key != "anyOf"}
    for kind in schema.get("anyOf", ()):
        if kind != {"type": "null"}:
            without_null |= kind
    if "default" in without_null and without_null["default"] is None:
        del without_null["default"]
    return without_null


def describe_path(name: str) -> dict[str, Any]:
    """Describe a parameter of a path in OpenAPI."""
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_QUERY_TEXT}
    if name == "user":
        schema["maxLength"] = LONGEST_QUERY_USER
    if name == "slot":
        schema = {"type": "string", "format": "date-time"}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PATH_DESCRIPTIONS[name],
        "schema": schema,
    }
