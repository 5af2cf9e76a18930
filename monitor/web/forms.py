"""Forms that change something, with tokens, and the gate on which deployments wait.

HTTPException for what is refused.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from monitor.errors import ConfigError, InputError
from monitor.options import parse_duration
from monitor.pipeline.alert_actions import Signature, change_firing, make_silence
from monitor.ports import AlertStore
from monitor.web.pages.parameters import Slot, Text, describe_path
from monitor.web.pages.site import Site, UnanswerableError
from monitor.web.server import PLAIN_HEADERS, is_same_origin

_MOST_BYTES = 16_384

_LONGEST_COMMENT = 500
OUTCOMES = {
    "acknowledge": "Acknowledged: it is not sent again until it ends.",
    "resolve": "Resolved. If the next run is in breach it fires again, as a new alert.",
    "silence": "Silenced. What still fires when the silence ends is sent then.",
    "expire": "The silence has ended. What still fires is sent.",
    "nothing": "Nothing was changed: it has ended, or was done before.",
}
"""What came of a form, by the word in the address of the page that follows it."""


@dataclass(frozen=True, slots=True)
class FormTokens:
    """Tokens of forms for a user from a time on, under a key of this process, which browsers never send by themselves."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def issue(self, user: str, issued: str) -> str:
        """The token of a form that this user is shown at this ISO 8601 time."""
        signature = hashlib.blake2b(
            f"{issued}~{user}".encode(), key=self.key, digest_size=32
        ).hexdigest()
        return f"{issued}~{signature}"

    def verify(self, token: str, user: str) -> datetime:
        """When the user was shown the form with this token."""
        issued = token.partition("~")[0]
        if not hmac.compare_digest(token.encode(), self.issue(user, issued).encode()):
            raise HTTPException(
                403,
                (
                    "this form is not of this user, of this daemon and since its last start: load "
                    "its page anew"
                ),
            )
        return datetime.fromisoformat(issued)


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form."""
    body = b""
    if not is_same_origin(request.headers):
        raise HTTPException(
            403,
            (
                "this form comes from another site, or a proxy without HTTPS changed the header "
                "Host: use HTTPS"
            ),
        )
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, f"a form has at most {_MOST_BYTES:,} bytes: write less")
    return dict(parse_qsl(body.decode("utf-8", "replace")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form as its user sent it.

    ``key``: of the incident on whose page it stood, empty on the page of all.
    """

    user: str
    issued: datetime
    key: str
    fields: Mapping[str, str]


def act(site: Site, form: Form) -> str:
    """Do what the form asks for.

    Its outcome, one of `OUTCOMES`. ConfigError where that cannot be done.
    """
    what, alerts, now = form.fields.get("do", ""), site.store.alerts, site.clock.now()
    comment = " ".join(form.fields.get("comment", "").split())[:_LONGEST_COMMENT]
    signed, number = (
        Signature(author=form.user, comment=comment, at=now),
        form.fields.get("silence", ""),
    )
    if what in ("acknowledge", "resolve"):
        of_it = lambda start: form.key in (start.incident, start.dedup_key)  # noqa: E731
        is_done = bool(change_firing(alerts, of_it, signed, ends=what == "resolve"))
    elif what == "silence":
        is_done = _silence(alerts, form, signed)
    elif what == "expire" and re.fullmatch("[0-9]{1,18}", number):
        is_done = alerts.expire_silence(int(number), now=now)
    else:
        raise ConfigError(f"there is no action {what[:40]!r} for {number[:40]!r}")
    return what if is_done else "nothing"


def _silence(alerts: AlertStore, form: Form, signed: Signature) -> bool:
    try:
        ends_at = signed.at + parse_duration(form.fields.get("for", ""))
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"for how long: {error}") from None
    matchers = [line for line in form.fields.get("matchers", "").splitlines() if line.strip()]
    wanted = make_silence(matchers, signed, starts_at=signed.at, ends_at=ends_at)
    # A form that is sent again finds what it made: forms are done one after the other, and each by
    # the process that made it.
    for each in alerts.silences(ending_after=form.issued):
        is_same = (each.matchers, each.author, each.comment) == (
            wanted.matchers,
            wanted.author,
            wanted.comment,
        )
        if is_same and each.created_at >= form.issued:
            return False
    alerts.add_silence(wanted)
    return True


GATE = "/api/v1/gate/{name}"
SERVER_ANSWERS = {
    "401": "The server asks for a password.",
    "421": "Nobody has to authenticate, and the header Host names another server.",
    "431": "Headers and address are larger than 16 kB.",
    "503": "The database or a source is away, or too many passwords wait to be verified.",
    "504": "The answer took too long.",
}
"""Answers of every address, by status."""
_WIDEST = 1e9
"""No metric on lists of at most 10,000 items has a wider range."""
_MOST_SEGMENTS = 50


FAILURE = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
}
"""The JSON of an answer that says no, in OpenAPI."""


def describe_failures(own: Mapping[str, str]) -> dict[str, Any]:
    """Answers that say no, in OpenAPI: a route's own by status, and those of every address."""
    as_json = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
    # What the server says before it looks at the address is plain text.
    as_text = {"text/plain": {"schema": {"type": "string"}}}
    contents = {
        "400": {**as_json, **as_text},
        "401": as_text,
        "421": as_text,
        "431": as_text,
        "503": {**as_json, **as_text},
    }
    return {
        status: {"description": text, "content": contents.get(status, as_json)}
        for status, text in {**own, **SERVER_ANSWERS}.items()
    }


class GateQuery(BaseModel, extra="forbid"):
    """The options of `rankwatch gate`, by the same names and with the same defaults, and what the status shall say."""

    margin: Annotated[
        float,
        Field(
            ge=-_WIDEST,
            le=_WIDEST,
            allow_inf_nan=False,
            description="Mean excess that would be too much, in the metric's own units. It must "
            "lie inside of the range of the excess: -1 to 1 for a metric from 0 to 1 "
            "with a noise floor, 0 to 1 without.",
        ),
    ]
    alpha: Annotated[
        float, Field(gt=0, lt=1, description="How often each wrong verdict is acceptable.")
    ] = 0.01
    metric: Annotated[
        Text | None, Field(description="Metric to judge; default: the comparison's first.")
    ] = None
    segments: Annotated[
        tuple[Text, ...],
        Field(
            alias="segment",
            max_length=_MOST_SEGMENTS,
            description="Segment to judge, or each; may be repeated.",
        ),
    ] = ()
    since: Annotated[Slot | None, Field(description="First slot that counts.")] = None
    reference: Annotated[
        float | None,
        Field(
            ge=-_WIDEST,
            le=_WIDEST,
            allow_inf_nan=False,
            description="Score that counts as no excess.",
        ),
    ] = None
    verdict: Annotated[
        Literal["safe", "breach"] | None,
        Field(description="What status 200 says; of a POST, safe."),
    ] = None


def answer_gate(site: Site, request: Request) -> Response:
    """The certificate.

    Where one verdict is asked for, as webhooks do, 200 for it and 409 for all else.

    InputError for options that cannot be read, UnanswerableError for those that this comparison
    cannot have.
    """
    name, asked = request.path_params["name"], _read_query(request)
    wanted = asked.pop("verdict") or ("safe" if request.method == "POST" else None)
    site.require(name)
    try:
        certificate = site.judge(site.comparisons(), name, asked)
    except (ConfigError, InputError) as error:
        raise UnanswerableError(str(error)) from None
    if wanted is not None:  # in few words: controllers quote them
        text, is_wanted = (
            f"{certificate['verdict']}: {certificate['words']}\n",
            certificate["verdict"] == wanted,
        )
        return PlainTextResponse(text, 200 if is_wanted else 409, headers=PLAIN_HEADERS)
    return Response(
        TypeAdapter(Any).dump_json(certificate),
        media_type="application/json",
        headers=PLAIN_HEADERS,
    )


def _read_query(request: Request) -> dict[str, Any]:
    given = {name: request.query_params.getlist(name) for name in request.query_params}
    single = {
        name: values[0] for name, values in given.items() if name != "segment" and len(values) == 1
    }
    try:
        return dict(GateQuery.model_validate({**given, **single}))
    except ValidationError as error:
        faults = "; ".join(
            f"{each['loc'][0]}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()
        )
        raise InputError(
            f"{faults}. What may be given: {', '.join(GateQuery.model_json_schema()['properties'])}"
        ) from None


def describe_gate() -> dict[str, Any]:
    """The route in OpenAPI, whose two methods differ in a default."""
    asked = GateQuery.model_json_schema()
    query = [
        {
            "name": name,
            "in": "query",
            "required": name in asked["required"],
            "schema": _without_null(schema),
        }
        for name, schema in asked["properties"].items()
    ]
    failures = {
        "400": "An option is unknown, missing or cannot be read.",
        "404": "There is no such comparison.",
        "409": (
            "Not the verdict asked for, or none yet; or this comparison cannot have such a "
            "metric, segment or margin."
        ),
    }
    responses = describe_failures(failures)
    verdict = {"text/plain": {"schema": {"type": "string"}}}
    responses["409"]["content"] |= verdict
    answer = {"application/json": {"schema": {"type": "object"}}, **verdict}
    responses["200"] = {
        "description": "The certificate; or the verdict asked for, in words.",
        "content": answer,
    }
    operation = {
        "summary": "Decide on a rollout from stored runs.",
        "parameters": [describe_path("name"), *query],
        "responses": responses,
    }
    return {"get": operation, "post": operation}


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an option that is left out where it is null: a query has no null."""
    kinds = schema.get("anyOf", ())
    (kind,) = [each for each in kinds if each != {"type": "null"}] or ({},)
    return {
        **kind,
        **{
            key: value
            for key, value in schema.items()
            if key != "anyOf" and (key, value) != ("default", None)
        },
    }
