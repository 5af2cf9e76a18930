"""Lists from a recommender over HTTP, one user or a batch of them a request: the kind and its options."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    model_validator,
)

from monitor.options import (
    NOT_IN_HASH,
    ConfigPath,
    Duration,
    HeaderSecret,
    HeaderText,
    OneOf,
    Options,
    check_headers,
    must,
    readable_by,
    web_url_of,
)
from monitor.slot_templates import check_placeholders, placeholders
from monitor.sources.expressions import Expression
from monitor.sources.http.body import body_for_batch
from monitor.sources.http.profiles import with_profile
from monitor.sources.kinds import Reader, SourceKind
from monitor.sources.table_options import ColumnName, IdForms, NoItem, UserColumnOptions
from monitor.web_proxy import Proxy


def _check_url(text: str) -> None:
    # Messages do not repeat the address, which may hold a password.
    filled = re.sub(r"\{[^{}]*\}", "x", check_placeholders(text, "user", "users", "k"))
    if not text.isascii() or web_url_of(filled) is None:
        raise ValueError(
            (
                "is no URL: expected http://host:port/path, with blanks and characters beyond "
                "ASCII percent-encoded"
            )
        )
    if "{" in urlsplit(text).netloc:
        raise ValueError("may have placeholders after the host only")


_WRITING = {
    "write-back-type": "with write-back-type Gorse keeps what it recommends as feedback",
    "cascadeCreate": "with cascadeCreate Recombee creates users whom it does not know",
}
"""Parameters with which an answer has effects, unless they are false."""

_changes_nothing = must(
    lambda method: method in ("GET", "POST"),
    "must be GET or POST: by other methods one changes what is asked",
)


class HmacOptions(Options):
    """A keyed hash (HMAC) of each request, sent with its time."""

    secret: SecretStr = Field(min_length=1, description="Key.")
    signs: str = Field(
        default="{timestamp}.{body}",
        description=(
            "What is hashed: `{method}`, `{target}` (path and query as sent), "
            "`{timestamp}`, `{body}` are filled in."
        ),
    )
    digest: Literal["sha256", "sha1", "sha512"] = Field(
        default="sha256", description="The hash function."
    )
    encoding: Literal["hex", "base64"] = Field(
        default="hex", description="How the hash is written."
    )
    place: Literal["header", "query"] = Field(
        default="header", description="Where both go; the time then is in `{target}`."
    )
    timestamp: HeaderText = Field(
        default="X-Timestamp", description="Name of the time, in Unix seconds."
    )
    signature: HeaderText = Field(default="X-Signature", description="Name of the hash.")


class AwsOptions(Options):
    """Signature version 4 of AWS, by botocore: needs the extra ``aws``."""

    region: HeaderText = Field(description="Region, such as eu-west-1.")
    service: HeaderText = Field(
        default="execute-api", description="The service as signatures name it."
    )
    access_key: SecretStr | None = Field(
        default=None,
        description="Access key; without it credentials are found as AWS's own tools find them.",
    )
    secret_key: SecretStr | None = Field(default=None, description="Secret key that goes with it.")

    def _problems(self) -> Iterator[str]:
        if bool(self.access_key) is not bool(self.secret_key):
            yield "give access_key and secret_key together, or neither"


_is_token_url = must(
    re.compile("https?://[^@]+").fullmatch,
    "must be a URL without user and password: https://host/path",
)


class OAuth2Options(Options):
    """OAuth 2 client credentials (RFC 6749, 4.4): the token is kept until it ends, and fetched once more after a 401."""

    token_url: Annotated[SecretStr, _is_token_url] = Field(
        description="Where tokens are fetched. Treated as a secret: it is never shown."
    )
    client_id: HeaderText = Field(description="The client's id.")
    client_secret: SecretStr = Field(description="The client's secret.")
    scope: str | None = Field(default=None, description="Scopes, with blanks between.")
    audience: str | None = Field(
        default=None, description="For whom tokens are, where the server wants to know."
    )


class AuthOptions(OneOf):
    """How the source is told who asks: exactly one of these."""

    hmac: HmacOptions | None = Field(default=None, description="A keyed hash of each request.")
    aws: AwsOptions | None = Field(default=None, description="Signature version 4 of AWS.")
    oauth2: OAuth2Options | None = Field(default=None, description="OAuth 2 client credentials.")


class HttpOptions(Options):
    """Whom to ask over HTTP, and how."""

    url: Annotated[SecretStr, readable_by(_check_url)] = Field(
        description="Address; `{slot:%Y-%m-%d}` is filled in. No redirects."
    )
    headers: Annotated[dict[str, SecretStr], AfterValidator(check_headers)] = Field(
        default_factory=dict,
        description="Headers to send; `Name_file: path` reads the value from a file.",
    )
    token: HeaderSecret | None = Field(
        default=None, description="Token for `Authorization: Bearer`."
    )
    auth: Annotated[AuthOptions | None, NOT_IN_HASH] = Field(
        default=None,
        description=(
            "How the source is told who asks, beyond `token`, `headers` and user and "
            "password in `url`."
        ),
    )
    ca_file: Annotated[ConfigPath | None, NOT_IN_HASH] = Field(
        default=None,
        description="PEM file of the authorities to trust instead of the system's, for https.",
    )
    cert_file: Annotated[ConfigPath | None, NOT_IN_HASH] = Field(
        default=None, description="PEM file of a certificate to show to the server, for https."
    )
    key_file: Annotated[ConfigPath | None, NOT_IN_HASH] = Field(
        default=None,
        description=(
            "PEM file of its key, without a password; left out where `cert_file` holds it too."
        ),
    )
    proxy: Proxy = None
    allow_link_local: Annotated[bool, NOT_IN_HASH] = Field(
        default=False,
        description="Whether `url` and `token_url` may lead to link-local addresses, such as "
        "169.254.169.254, or others where clouds give out a machine's credentials. "
        "Private addresses may be asked in any case.",
    )
    timeout: Annotated[Duration, NOT_IN_HASH] = Field(
        default=timedelta(seconds=5),
        description="Longest time for one request, from connecting to the last byte.",
    )
    max_bytes: Annotated[int, NOT_IN_HASH] = Field(
        default=2**20,
        ge=1024,
        le=2**30,
        description="Largest answer, in bytes after decompression; longer ones are cut off.",
    )

    @property
    def host(self) -> str:
        """Name and port of who is asked."""
        return urlsplit(self.url.get_secret_value()).netloc.rpartition("@")[2]

    def _problems(self) -> Iterator[str]:
        if self.key_file and not self.cert_file:
            yield "key_file goes with cert_file"
        has_login = urlsplit(self.url.get_secret_value()).username is not None
        has_header = "authorization" in map(str.lower, self.headers)
        ways = (self.token, has_header, self.auth and not self.auth.hmac, has_login)
        if sum(map(bool, ways)) > 1:
            yield "give one of token, auth, an Authorization header, and user and password in url"


class HttpSourceOptions(HttpOptions):
    """A recommender that answers one user's list a request, or those of a batch, as JSON."""

    url: Annotated[SecretStr, readable_by(_check_url)] = Field(
        description="Address; `{user}`, `{k}` and `{slot:%Y-%m-%d}` are filled in, "
        "percent-encoded; `{users}` is a batch, with commas between. No redirects."
    )
    profile: Annotated[str | None, NOT_IN_HASH] = Field(
        default=None,
        description="Takes what is left out from a profile of a known API "
        "(monitor/sources/http/profiles/README.md), or from a file of your own, "
        "`./FILE.yaml`; `url` is then the server's address, and mappings are laid "
        "over the profile's.",
    )
    with_: Annotated[dict[str, Any] | None, NOT_IN_HASH] = Field(
        default=None,
        alias="with",
        repr=False,
        exclude=True,
        description="Values of the profile's variables.",
    )
    endpoint: str | None = Field(
        default=None, description="What follows `url`, with its placeholders; a profile sets it."
    )
    batch: Annotated[int | None, NOT_IN_HASH] = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Most users a request. Where the server finds that too many (413), or its "
        "answer is longer than `max_bytes`, half as many are asked for from then on.",
    )
    answers: Expression | None = Field(
        default=None,
        description="With `batch`: JMESPath to what holds one answer a user, to each of which "
        "`items`, `scores` and `user` are applied: an array, in the order asked where "
        "`user` does not say whose each is, or an object by user's key. By default "
        "the whole.",
    )
    items: Expression = Field(
        default="@", description="JMESPath to the array of item ids in the answer, best first."
    )
    scores: Expression | None = Field(
        default=None,
        description=(
            "JMESPath to the array of the model's own scores, one an item in the items' "
            "order; equal ones are ties."
        ),
    )
    item_ids: IdForms = None
    no_item: NoItem = None
    user: Expression | None = Field(
        default=None,
        description=(
            "JMESPath to the user's key in the answer; an answer that names another user "
            "is counted as wrong_user."
        ),
    )
    error: Expression | None = Field(
        default=None,
        description="JMESPath to what an answer holds if it tells of an error: where it finds "
        "something that is true, the answer counts as http_error. With `batch` "
        "applied to the whole and to each user's answer.",
    )
    model_version: Annotated[Expression | None, NOT_IN_HASH] = Field(
        default=None,
        description="JMESPath to the version of the model that answered. With `batch` applied to "
        "each user's answer, and where it finds nothing there to the whole.",
    )
    model_version_header: Annotated[HeaderText | None, NOT_IN_HASH] = Field(
        default=None,
        description="Name of the answer's header that says so, where `model_version` finds nothing.",
    )
    method: Annotated[Literal["GET", "POST"], BeforeValidator(_changes_nothing.func)] = Field(
        default="GET", description="How to ask; both must be safe to repeat."
    )
    body: Any = Field(
        default=None,
        repr=False,  # it may hold a key, and so neither a repr nor a dump shows it
        exclude=True,
        description="JSON to POST; `{user}`, `{k}` and `{slot:...}` in its texts are filled in, "
        '`"{k}"` alone as a number, as '
        'is the key of a user by `"{user:int}"` or `"{users:int}"`. '
        'With `batch`, `"{users}"` alone is the array of their keys, `"{count}"` their number, '
        "and an array of one element "
        "that names `{user}` has that element once a user.",
    )
    concurrency: Annotated[int, NOT_IN_HASH] = Field(
        default=32, ge=1, le=512, description="Most requests under way at once."
    )
    max_in_flight: Annotated[
        Annotated[int, Field(ge=1)] | Literal["adaptive"] | None, NOT_IN_HASH
    ] = Field(
        default=None,
        description="How many requests may be under way at once to the host of `url`, from all "
        "comparisons of the daemon, when one of this source begins. `adaptive` finds "
        "out how many it answers before they queue there.",
    )
    max_rate: Annotated[float | None, NOT_IN_HASH] = Field(
        default=None,
        gt=0,
        le=1e6,
        description="How many requests a second that host may get, likewise.",
    )
    requests_a_day: Annotated[int | None, NOT_IN_HASH] = Field(
        default=None,
        ge=1,
        description="How many requests, retries among them, that host may get from midnight to "
        "midnight (UTC), from all sources that set this. Users beyond are `too_slow`. "
        "A daemon that is started again counts anew, as does each command.",
    )
    retries: Annotated[int, NOT_IN_HASH] = Field(
        default=2,
        ge=0,
        le=10,
        description="How often a request is repeated after a failed connection, a timeout, 429 or "
        "5xx. For a pause that it asks for (Retry-After) nobody asks that host.",
    )

    @property
    def is_limited(self) -> bool:
        """Whether it limits what its host is asked by all."""
        return self.max_in_flight is not None or self.max_rate is not None

    @property
    def address(self) -> str:
        """The address that is asked, with its placeholders. A secret."""
        url = self.url.get_secret_value()
        return url.rstrip("/") + self.endpoint if self.endpoint else url

    @model_validator(mode="before")
    @classmethod
    def _from_profile(cls, data: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 - raw input is anything
        if not isinstance(data, Mapping) or not isinstance(data.get("profile"), str):
            return data
        return with_profile(data, (info.context or {}).get("base_dir"))

    def _problems(self) -> Iterator[str]:
        asked = f"{self.address} {json.dumps(self.body, default=str)}"
        if written := [
            what
            for name, what in _WRITING.items()
            if re.search(rf'[?&"]{name}"?\s*[=:](?!\s*"?false)', asked)
        ]:
            yield f"asking must change nothing: {written[0]}"
        if self.body is not None and self.method != "POST":
            yield "body is sent with method: POST only"
        _check_url(self.address)
        if self.endpoint and re.search("[?#]", self.url.get_secret_value()):
            yield "url may have no ? or #, since endpoint follows it"
        in_url = placeholders(self.address)
        named = placeholders(asked)
        if not named & {"user", "users"}:
            yield "url or body must contain {user}: else every user would get the same list"
        if self.batch is None and ("users" in named or self.answers is not None):
            yield "{users} and answers go with batch, the most users a request"
        if self.batch is not None and "user" in in_url | placeholders(
            json.dumps(body_for_batch(self.body, ()), default=str)
        ):
            yield (
                "batch asks for many users at once: write {users}, or {user} in an array of "
                "one element of the body"
            )


class HttpUsersOptions(UserColumnOptions, HttpOptions):
    """All users in the answer to one GET: an array of their keys, or of objects that hold segments, too."""

    user: ColumnName = Field(default="user", description="Name in each object of the user's key.")
    users: Expression = Field(
        default="@", description="JMESPath to the array of users in the answer."
    )

    def _problems(self) -> Iterator[str]:
        if placeholders(self.url.get_secret_value()) - {"slot"}:
            yield "url is asked once for all users: it may hold {slot:...} alone"


HTTP = SourceKind(
    lists=Reader(
        HttpSourceOptions,
        "monitor.sources.http.source:HttpSource",
        "A recommender asked over HTTP, one user or a batch of them a request.",
    ),
    is_live=lambda _: True,
    users=Reader(
        HttpUsersOptions, "monitor.sources.http.users:HttpUsers", "Users that one GET answers with."
    ),
)
