"""Executes forms that change something, checks their tokens, and answers the gate."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from monitor.alerts.unmatched_names import find_unmatched_silences
from monitor.boundary.options import parse_duration
from monitor.model.alerts import Transition
from monitor.model.errors import ConfigError, InputError
from monitor.model.immutable import immutable
from monitor.pipeline.alert_actions import AlertAction, change_firing, make_silence
from monitor.web.pages.parameters import QueryText, Slot, describe_path, describe_query, read_query
from monitor.web.pages.site import ForbiddenError, Site, UnanswerableError
from monitor.web.server import CLIENT_NAME, PLAIN_HEADERS

_MOST_FORM_BYTES = 16_384

_LONGEST_COMMENT_CHARS = 500
_QUOTED_CHARS = 40  # an error quotes at most this many characters of a field
_SILENCE_ID = re.compile("[0-9]{1,18}")
FORM_RESULTS = {
    "acknowledge": "Acknowledged. No more messages about it are sent until it ends.",
    "resolve": "Resolved. A new alert fires if the next run breaks the rule again.",
    "silence": "Silenced. Alerts that still fire when the silence ends are sent then.",
    "unmatched": (
        "The silence is stored, but it matches no alert so far. The page of all alerts says why."
    ),
    "expire": "The silence has ended. Alerts that still fire are sent.",
    "nothing": (
        "Nothing was changed. The alert or silence has already ended, or the form was sent twice."
    ),
}
"""Texts about the results of forms. The key is in the address of the page that shows the text."""


@immutable
class FormTokens:
    """Makes and verifies signed tokens in forms. A token proves which user saw the form, and when.

    Another site cannot send a token, because it cannot read the form. Only this process knows the
    key.
    """

    key: bytes = field(default_factory=partial(secrets.token_bytes, 32), repr=False)

    def issue(self, user: str, now: str) -> str:
        """Return the token of a form that is shown to this user. ``now`` is in ISO 8601."""
        signed = f"{now}~{user}".encode()
        signature = hashlib.blake2b(signed, key=self.key, digest_size=32).hexdigest()
        return f"{now}~{signature}"

    def verify(self, token: str, user: str) -> datetime:
        """Return when the form with this token was shown to the user.

        Raises ForbiddenError if the token is wrong.
        """
        shown_at, _, _ = token.partition("~")
        right_token = self.issue(user, shown_at)
        if not hmac.compare_digest(token.encode(), right_token.encode()):
            raise ForbiddenError(
                "another user or another daemon made this form, or the daemon was restarted since "
                "then: load the page of the form again",
            )
        return datetime.fromisoformat(shown_at)


def require_user(request: Request) -> str:
    """Return the name of the user who sent this request to change something.

    Raises ForbiddenError if nobody had to authenticate, or if the request is from another site.
    """
    user: str | None = request.scope[CLIENT_NAME]
    if user is None:
        raise ForbiddenError(
            "changes need a web configuration file with basic_auth_users or verified client "
            "certificates"
        )
    if not _is_same_origin(request.headers):
        raise ForbiddenError(
            "this request is from another site, or a proxy without HTTPS changed the header Host: "
            "use HTTPS"
        )
    return user


def _is_same_origin(headers: Headers) -> bool:
    """Return whether our own pages sent the request, or a client that is not a browser.

    Over HTTPS a browser says whether the page is from the same site (Sec-Fetch-Site). Over HTTP it
    sends the address of the page's site (Origin). Other clients send neither header.
    """
    relation = headers.get("sec-fetch-site")
    if relation is not None:
        return relation == "same-origin"
    origin = headers.get("origin")
    if origin is None:
        return True
    _, _, origin_host = origin.partition("://")
    return origin_host == headers.get("host")


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form. Raises ConfigError if the form is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_FORM_BYTES:
            raise ConfigError(
                f"the form has more than {_MOST_FORM_BYTES:,} bytes: shorten its texts"
            )
    return dict(parse_qsl(body.decode("utf-8", "replace")))


@immutable
class Form:
    """A form that a user sent.

    - ``shown_at`` is when the page with the form was shown to the user.
    - ``incident`` is the key of the incident whose page has the form. It is empty on the page of
      all incidents.
    """

    user: str
    shown_at: datetime
    incident: str
    fields: Mapping[str, str]


def execute_form(site: Site, form: Form) -> str:
    """Execute the form. Returns the outcome, which is a key of `FORM_RESULTS`.

    The field ``do`` names the action. Raises ConfigError if a field is wrong.
    """
    alerts = site.store.alerts
    now = site.clock.now()
    action = form.fields.get("do", "")
    silence_id = form.fields.get("silence", "")
    comment = " ".join(form.fields.get("comment", "").split())[:_LONGEST_COMMENT_CHARS]
    alert_action = AlertAction(author=form.user, comment=comment, at=now)

    def is_of_incident(start: Transition) -> bool:
        return start.incident == form.incident

    if action == "silence":
        return _store_silence(site, form, alert_action)
    if action in ("acknowledge", "resolve"):
        transitions = change_firing(
            alerts, is_of_incident, alert_action, resolves=action == "resolve"
        )
        is_done = bool(transitions)
    elif action == "expire" and _SILENCE_ID.fullmatch(silence_id):
        is_done = alerts.expire_silence(int(silence_id), now=now)
    else:
        raise ConfigError(
            f"there is no action {action[:_QUOTED_CHARS]!r} for {silence_id[:_QUOTED_CHARS]!r}"
        )
    return action if is_done else "nothing"


def _store_silence(site: Site, form: Form, alert_action: AlertAction) -> str:
    """Store the silence of the form. Returns ``silence``, ``unmatched`` or ``nothing``.

    Raises ConfigError if a field is wrong.
    """
    try:
        ends_at = alert_action.at + parse_duration(form.fields.get("for", ""))
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"the duration of the silence is wrong: {error}") from None
    lines = form.fields.get("matchers", "").splitlines()
    matchers = [line for line in lines if line.strip()]
    silence = make_silence(matchers, alert_action, starts_at=alert_action.at, ends_at=ends_at)
    # A browser may send a form twice. Forms are executed one at a time, so the second one finds the
    # silence of the first one, and changes nothing.
    alerts = site.store.alerts
    for stored in alerts.silences(ending_after=form.shown_at):
        if (
            stored.created_at >= form.shown_at
            and stored.author == silence.author
            and stored.matchers == silence.matchers
            and stored.comment == silence.comment
        ):
            return "nothing"
    stored_silence = alerts.add_silence(silence)
    unmatched = find_unmatched_silences([stored_silence], alerts.names(), site.comparisons)
    return "unmatched" if unmatched else "silence"


GATE = "/api/v1/gate/{name}"
SERVER_ANSWERS = {
    "401": "The server requires a user name and a password.",
    "421": "The server requires no authentication, so it refuses unknown names in the header Host.",
    "503": "The database or a source does not answer, or too many passwords wait to be verified.",
    "504": "The answer took too long.",
}
"""What the statuses mean that any address can return."""
_LARGEST_VALUE = 1e9
"""The largest margin and reference. No metric on lists of 10,000 items has a larger value."""
_MOST_SEGMENTS = 50

_AS_TEXT = {"text/plain": {"schema": {"type": "string"}}}
FAILURE = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
}
"""Describes the JSON of an error answer in OpenAPI."""


def describe_failures(failures: Mapping[str, str]) -> dict[str, Any]:
    """Describe the error answers of a route in OpenAPI, by status.

    ``failures`` has the meaning of each status that only this route returns. `SERVER_ANSWERS`, the
    answers of every route, are added.
    """
    as_json = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
    # Errors that occur before the server reads the address are answered in plain text.
    contents = {
        "400": as_json | _AS_TEXT,
        "401": _AS_TEXT,
        "421": _AS_TEXT,
        "503": as_json | _AS_TEXT,
    }
    answers = {}
    for status, meaning in {**failures, **SERVER_ANSWERS}.items():
        answers[status] = {"description": meaning, "content": contents.get(status, as_json)}
    return answers


class GateQuery(BaseModel, extra="forbid"):
    """The options of `rankwatch gate` with their defaults, and the option ``verdict``."""

    margin: Annotated[
        float,
        Field(
            ge=-_LARGEST_VALUE,
            le=_LARGEST_VALUE,
            allow_inf_nan=False,
            description="A mean excess of at least this is too much. The units are those of the "
            "metric. For a metric from 0 to 1, the margin is from -1 to 1 if there is a noise "
            "floor, and from 0 to 1 if there is none.",
        ),
    ]
    alpha: Annotated[
        float, Field(gt=0, lt=1, description="The accepted probability of each wrong verdict.")
    ] = 0.01
    metric: Annotated[
        QueryText | None,
        Field(description="The metric to judge. By default the comparison's first."),
    ] = None
    segments: Annotated[
        tuple[QueryText, ...],
        BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
        Field(
            alias="segment",
            max_length=_MOST_SEGMENTS,
            description="A segment to judge, or `each` for all segments. May be repeated.",
        ),
    ] = ()
    since: Annotated[Slot | None, Field(description="The first slot to judge.")] = None
    reference: Annotated[
        float | None,
        Field(
            ge=-_LARGEST_VALUE,
            le=_LARGEST_VALUE,
            allow_inf_nan=False,
            description="The score of a user without excess.",
        ),
    ] = None
    verdict: Annotated[
        Literal["safe", "breach"] | None,
        Field(description="This verdict gets status 200. For a POST the default is safe."),
    ] = None


def answer_gate(read_site: Callable[[], Site], request: Request) -> Response:
    """Return the certificate as JSON, or only its verdict if the request wants a certain verdict.

    The parameter ``verdict`` is the wanted verdict. The status is 200 for this verdict, and 409 for
    any other. The webhooks of rollout controllers send a POST, which wants `safe` by default.

    Raises InputError if an option cannot be read. Raises UnanswerableError if this comparison
    does not support an option.
    """
    name = request.path_params["name"]
    options = dict(read_query(GateQuery, request))
    wanted_verdict = options.pop("verdict")
    if wanted_verdict is None and request.method == "POST":
        wanted_verdict = "safe"
    site = read_site()
    site.require(name)
    try:
        certificate = site.judge(name, options)
    except (ConfigError, InputError) as error:
        raise UnanswerableError(str(error)) from None
    if wanted_verdict is None:
        body = TypeAdapter(Any).dump_json(certificate)
        return Response(body, media_type="application/json", headers=PLAIN_HEADERS)
    verdict = certificate["verdict"]
    status = 200 if verdict == wanted_verdict else 409
    # The body is one line, because rollout controllers show all of it.
    return PlainTextResponse(
        f"{verdict}: {certificate['sentence']}\n", status, headers=PLAIN_HEADERS
    )


def describe_gate() -> dict[str, Any]:
    """Describe the gate in OpenAPI, with the same operation for GET and POST.

    The methods differ only in the default of the option ``verdict``, as its description says.
    """
    failures = {
        "400": "An option is unknown, missing or cannot be read.",
        "404": "The comparison does not exist.",
        "409": (
            "The verdict is not the one that was asked for. Or this comparison has no such metric "
            "or segment, or the margin is outside of the metric's range."
        ),
    }
    responses = describe_failures(failures)
    # This makes a new dict, because other statuses share the old one.
    responses["409"]["content"] = responses["409"]["content"] | _AS_TEXT
    answer = {"application/json": {"schema": {"type": "object"}}, **_AS_TEXT}
    responses["200"] = {
        "description": "The certificate. If the request asks for a verdict, one line of text.",
        "content": answer,
    }
    operation = {
        "summary": "Decide on a rollout from stored runs.",
        "parameters": [describe_path("name"), *describe_query(GateQuery)],
        "responses": responses,
    }
    return {"get": operation, "post": operation}
