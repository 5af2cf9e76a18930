"""The rollout gate over HTTP: what may be asked, and the answers that deployment controllers act on."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from monitor.errors import InputError
from monitor.model.instants import read_instant
from monitor.web.pages.site import Site
from monitor.web.server import PLAIN_HEADERS

GATE = "/api/v1/gate/{name}"


class GateQuery(BaseModel, extra="forbid"):
    """The options of `rankwatch gate`, by the same names and with the same defaults, and what the status shall say."""

    margin: Annotated[float, Field(description="Mean excess that would be too much, in the metric's own units.")]
    alpha: Annotated[float, Field(description="How often each wrong verdict is acceptable.")] = 0.01
    metric: Annotated[str | None, Field(description="Measure to judge; default: the comparison's first.")] = None
    segments: Annotated[tuple[str, ...], Field(alias="segment", description="Segment to judge, or each; may be repeated.")] = ()
    since: Annotated[datetime | None, BeforeValidator(read_instant), Field(description="First slot that counts.")] = None
    reference: Annotated[float | None, Field(description="Score that counts as no excess.")] = None
    verdict: Annotated[Literal["safe", "breach"] | None, Field(description="What status 200 says; of a POST, safe.")] = None


def answer_gate(site: Site, request: Request) -> Response:
    """The certificate; where one verdict is asked for, as webhooks do, 200 for it and 409 for all else. InputError."""
    name, asked = request.path_params["name"], _read_query(request)
    wanted = asked.pop("verdict") or ("safe" if request.method == "POST" else None)
    site.require(name)
    certificate = site.judge(site.comparisons(), name, asked)
    if wanted is not None:  # in few words: controllers quote them
        text, is_wanted = f"{certificate['verdict']}: {certificate['words']}\n", certificate["verdict"] == wanted
        return PlainTextResponse(text, 200 if is_wanted else 409, headers=PLAIN_HEADERS)
    return Response(TypeAdapter(Any).dump_json(certificate), media_type="application/json", headers=PLAIN_HEADERS)


def _read_query(request: Request) -> dict[str, Any]:
    given = {name: request.query_params.getlist(name) for name in request.query_params}
    single = {name: values[0] for name, values in given.items() if name != "segment" and len(values) == 1}
    try:
        return dict(GateQuery.model_validate({**given, **single}))
    except ValidationError as error:
        faults = "; ".join(f"{each['loc'][0]}: {each['msg'].removeprefix('Value error, ')}" for each in error.errors())
        msg = f"{faults}. What may be given: {', '.join(GateQuery.model_json_schema()['properties'])}"
        raise InputError(msg) from None


def describe_gate() -> dict[str, Any]:
    """The route in OpenAPI, whose two methods differ in a default."""
    asked = GateQuery.model_json_schema()
    query = [
        {"name": name, "in": "query", "required": name in asked["required"], "schema": schema}
        for name, schema in asked["properties"].items()
    ]
    statuses = {"200": "The certificate; or the verdict asked for, in words.", "409": "Not the verdict asked for, or none yet."}
    operation = {
        "summary": "Decide on a rollout from stored runs.",
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}, *query],
        "responses": {status: {"description": text} for status, text in statuses.items()},
    }
    return {"get": operation, "post": operation}
