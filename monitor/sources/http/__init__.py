"""Lists and users over HTTP: the kind of source and its options."""

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
)

from monitor.boundary.options import (
    NOT_IN_HASH,
    ConfigPath,
    Duration,
    HeaderSecret,
    HeaderText,
    Options,
    check_headers,
    must,
    readable_by,
    web_url_of,
)
from monitor.boundary.options.one_of import OneOf
from monitor.boundary.options.problems import placed
from monitor.boundary.redaction import require_encoded_login
from monitor.boundary.slot_templates import check_placeholders, placeholders
from monitor.boundary.web_proxy import Proxy
from monitor.sources.expressions import Expression
from monitor.sources.http.body import body_for_batch
from monitor.sources.http.profiles import with_profile
from monitor.sources.kinds import Reader, SourceKind
from monitor.sources.table_options import ColumnName, IdForms, NoItem, UserColumnOptions


def _check_url(url: str) -> None:
    # Errors do not repeat the URL, because it may contain a password.
    require_encoded_login(url)
    filled = re.sub(r"\{[^{}]*\}", "x", check_placeholders(url, "user", "users", "k"))
    if not url.isascii() or web_url_of(filled) is None:
        raise ValueError(
            "is no URL: expected http://host:port/path, with blanks and characters beyond ASCII "
            "percent-encoded"
        )
    if "{" in urlsplit(url).netloc:
        raise ValueError("may have placeholders only after the host")


_SIDE_EFFECTS = {
    "write-back-type": "with write-back-type Gorse stores what it recommends as feedback",
    "cascadeCreate": "with cascadeCreate Recombee creates unknown users",
}
"""Parameters of a URL that make a request change data, unless their value is false."""


def _only_reads(method: str) -> bool:
    return method in {"GET", "POST"}


_is_safe_method = must(
    _only_reads,
    "must be GET or POST, because other methods may change data on the server",
)


class HmacOptions(Options):
    """A keyed hash (HMAC) of each request. The request contains the hash and the time."""

    secret: SecretStr = Field(min_length=1)
    """The secret key of the hash."""
    signs: str = "{timestamp}.{body}"
    """The text to hash. rankwatch fills in `{method}`, `{target}`, `{timestamp}` and `{body}`.
    `{target}` is the path with the query, percent-encoded as in the request."""
    digest: Literal["sha256", "sha1", "sha512"] = "sha256"
    """The hash function."""
    encoding: Literal["hex", "base64"] = "hex"
    """The encoding of the hash."""
    place: Literal["header", "query"] = "header"
    """Where to send the hash and the time. With `query`, the query in `{target}` contains the
    time."""
    timestamp: HeaderText = "X-Timestamp"
    """Name of the header or parameter with the time, in Unix seconds."""
    signature: HeaderText = "X-Signature"
    """Name of the header or parameter with the hash."""


class AwsOptions(Options):
    """Signature version 4 of AWS. Needs the extra ``aws``."""

    region: HeaderText
    """The region, such as eu-west-1."""
    service: HeaderText = "execute-api"
    """The name of the service in signatures."""
    access_key: SecretStr | None = None
    """Access key. Without this key, rankwatch looks for credentials in the same places as AWS's own
    tools."""
    secret_key: SecretStr | None = None
    """Secret key of the access key."""

    def _problems(self) -> Iterator[str]:
        if bool(self.access_key) is not bool(self.secret_key):
            yield "give both access_key and secret_key, or neither of them"


_is_token_url = must(
    re.compile("https?://[^@]+").fullmatch,
    "must be a URL without user and password: https://host/path",
)


class OAuth2Options(Options):
    """OAuth 2 client credentials (RFC 6749, 4.4).

    A token is used until it expires. After an answer 401, a new token is fetched.
    """

    token_url: Annotated[SecretStr, _is_token_url]
    """URL that gives tokens. This value is a secret, and rankwatch never shows it."""
    client_id: HeaderText
    """Id of the client."""
    client_secret: SecretStr
    """Secret of the client."""
    scope: str | None = None
    """Scopes, separated by blanks."""
    audience: str | None = None
    """Audience of the tokens, if the server requires one."""


class AuthOptions(OneOf):
    """How requests authenticate. Give exactly one of these."""

    hmac: HmacOptions | None = None
    """A keyed hash of each request."""
    aws: AwsOptions | None = None
    """Signature version 4 of AWS."""
    oauth2: OAuth2Options | None = None
    """OAuth 2 client credentials."""


class HttpOptions(Options):
    """The address of a server, and how to send requests to it."""

    url: Annotated[SecretStr, readable_by(_check_url)]
    """The address. `{slot:%Y-%m-%d}` is filled in. Redirects are not followed."""
    headers: Annotated[dict[str, SecretStr], AfterValidator(check_headers)] = Field(
        default_factory=dict
    )
    """Headers to send. To read the value of a header from a file, write `Name_file: path`."""
    token: HeaderSecret | None = None
    """Token for the header `Authorization: Bearer`."""
    auth: Annotated[AuthOptions | None, NOT_IN_HASH] = None
    """How requests authenticate. Instead of `auth` you can use `token` or `headers`, or write user
    and password into `url`."""
    ca_file: Annotated[ConfigPath | None, NOT_IN_HASH] = None
    """PEM file of the certificate authorities to trust for https, instead of the system's
    authorities."""
    cert_file: Annotated[ConfigPath | None, NOT_IN_HASH] = None
    """PEM file with the client's certificate, for https."""
    key_file: Annotated[ConfigPath | None, NOT_IN_HASH] = None
    """PEM file with the certificate's key, without a password. This file is not needed if
    `cert_file` also contains the key."""
    proxy: Proxy = None
    allow_link_local: Annotated[bool, NOT_IN_HASH] = False
    """Whether `url` and `token_url` may lead to addresses where clouds provide a machine's
    credentials, such as 169.254.169.254 and other link-local addresses. Private addresses are
    always allowed."""
    timeout: Annotated[Duration, NOT_IN_HASH] = timedelta(seconds=5)
    """The longest time for one request, from connecting to the last byte."""
    max_bytes: Annotated[int, NOT_IN_HASH] = Field(default=2**20, ge=1024, le=2**30)
    """The largest size of an answer, in bytes after decompression. A larger answer is an error."""

    @property
    def host(self) -> str:
        """The host and port, without user and password."""
        return urlsplit(self.url.get_secret_value()).netloc.rpartition("@")[2]

    def _problems(self) -> Iterator[str]:
        if self.key_file and not self.cert_file:
            yield "key_file needs cert_file: give cert_file too"
        has_login = urlsplit(self.url.get_secret_value()).username is not None
        has_header = "authorization" in map(str.lower, self.headers)
        has_auth = self.auth is not None and self.auth.hmac is None
        if sum([self.token is not None, has_header, has_auth, has_login]) > 1:
            yield (
                "give only one of these: token, auth, an Authorization header, user and "
                "password in url"
            )


class HttpSourceOptions(HttpOptions):
    """A recommender that answers with JSON.

    An answer has the list of one user, or the lists of a batch of users.
    """

    url: Annotated[SecretStr, readable_by(_check_url)]
    """The address. rankwatch fills in `{user}`, `{k}` and `{slot:%Y-%m-%d}`, percent-encoded.
    `{users}` is a batch of users, separated by commas. Redirects are not followed."""
    profile: Annotated[str | None, NOT_IN_HASH] = None
    """A profile with default options for a known API (docs/reference/http-profiles.md), or your own
    file, `./FILE.yaml`. With a profile, `url` is the server's address. Mappings that you set, such
    as `headers`, are merged with the mappings of the profile."""
    with_: Annotated[dict[str, Any] | None, NOT_IN_HASH] = Field(
        default=None, alias="with", repr=False, exclude=True
    )
    """Values of the profile's variables."""
    endpoint: str | None = None
    """Path that is appended to `url`. The path may have placeholders. All built-in profiles set
    this path."""
    batch: Annotated[int | None, NOT_IN_HASH] = Field(default=None, ge=1, le=10_000)
    """The largest number of users in one request. If the server answers with status 413, or with
    more than `max_bytes`, later requests ask for half as many users."""
    answers: Expression | None = None
    """With `batch`: JMESPath to the users' entries in the answer (default: the whole answer). The
    entries are an array, or an object with one key for each user. If `user` is not set, the array
    must have the order of the request. The paths `items`, `scores` and `user` start at each
    entry."""
    items: Expression = "@"
    """JMESPath to the array of item ids in the answer, best first."""
    scores: Expression | None = None
    """JMESPath to the array of the model's own scores, in the order of the items. Items with equal
    scores are tied."""
    item_ids: IdForms = None
    no_item: NoItem = None
    user: Expression | None = None
    """JMESPath to the user's key in the answer. An answer about another user is counted as
    wrong_user."""
    error: Expression | None = None
    """JMESPath to an error in the answer. If the path leads to a true value, the answer is counted
    as http_error. With `batch`, rankwatch looks for an error in the whole answer and in each user's
    part."""
    model_version: Annotated[Expression | None, NOT_IN_HASH] = None
    """JMESPath to the version of the model that answered. With `batch`, rankwatch looks for the
    version in each user's part of the answer, and then in the whole answer."""
    model_version_header: Annotated[HeaderText | None, NOT_IN_HASH] = None
    """Name of the answer's header with the version, used if `model_version` finds nothing."""
    method: Annotated[Literal["GET", "POST"], BeforeValidator(_is_safe_method.func)] = "GET"
    """The HTTP method. The request must be safe to repeat."""
    # The body may contain a key, so neither repr nor a dump shows it.
    body: Any = Field(default=None, repr=False, exclude=True)
    """JSON to POST. rankwatch fills in `{user}`, `{k}` and `{slot:...}` in the texts of this JSON.
    The text `"{k}"` becomes a number. In place of `"{user:int}"` and `"{users:int}"`, users' keys
    are written as numbers. With `batch`, the text `"{users}"` becomes the array of keys, and
    `"{count}"` becomes their number. With `batch`, `[{"id": "{user}"}]` becomes an array with one
    such element for each user."""
    concurrency: Annotated[int, NOT_IN_HASH] = Field(default=32, ge=1, le=512)
    """The largest number of requests at the same time."""
    max_in_flight: Annotated[
        Annotated[int, Field(ge=1)] | Literal["adaptive"] | None, NOT_IN_HASH
    ] = None
    """The largest number of requests at the same time to the host of `url`, from all comparisons of
    the daemon. Further requests wait. With `adaptive`, rankwatch learns how many requests the host
    can answer at the same time without a queue."""
    max_rate: Annotated[float | None, NOT_IN_HASH] = Field(default=None, gt=0, le=1e6)
    """The largest number of requests in a second to the host of `url`, from all comparisons of the
    daemon."""
    requests_a_day: Annotated[int | None, NOT_IN_HASH] = Field(default=None, ge=1)
    """The largest number of requests in a day (UTC) to the host of `url`, from all sources that set
    this. Retries are counted too. After the last request of the day, further users are counted as
    `too_slow`. The count of requests begins at zero when the daemon starts, and in each command."""
    retries: Annotated[int, NOT_IN_HASH] = Field(default=2, ge=0, le=10)
    """How often a request is retried after a failed connection, a timeout, 429 or 5xx. If the host
    asks for a pause (Retry-After), all requests to this host wait."""

    @property
    def is_limited(self) -> bool:
        """Whether requests of this source wait while the host has too many requests."""
        return self.max_in_flight is not None or self.max_rate is not None

    @property
    def address(self) -> str:
        """The whole URL with its placeholders. It is a secret."""
        url = self.url.get_secret_value()
        if self.endpoint:
            return url.rstrip("/") + self.endpoint
        return url

    @classmethod
    def _prepared(cls, data: Mapping[str, Any], base: str | None) -> Mapping[str, Any]:
        if not isinstance(data.get("profile"), str):
            return data
        return placed(with_profile(data, base), data)

    def _problems(self) -> Iterator[str]:
        templates = f"{self.address} {json.dumps(self.body, default=str)}"
        for parameter, effect in _SIDE_EFFECTS.items():
            if re.search(rf'[?&"]{parameter}"?\s*[=:](?!\s*"?false)', templates):
                yield f"requests must not change data: {effect}"
        if self.body is not None and self.method != "POST":
            yield "body needs method: POST"
        _check_url(self.address)
        if self.endpoint and re.search("[?#]", self.url.get_secret_value()):
            yield "url must not contain ? or #, because endpoint is appended to it"
        names = placeholders(templates)
        if not names & {"user", "users"}:
            yield (
                "url or body must contain {user}, because all users would get the same list "
                "without it"
            )
        if self.batch is None:
            if "users" in names or self.answers is not None:
                yield (
                    "{users} and answers need batch: set batch to the largest number of users "
                    "in one request"
                )
            return
        # With no users, an element that is repeated for each user disappears. So a {user} that is
        # left is an error.
        body = json.dumps(body_for_batch(self.body, ()), default=str)
        if "user" in placeholders(f"{self.address} {body}"):
            yield (
                "with batch, one request asks for many users. Write {users}, or an array in the "
                "body with one element that has {user}. rankwatch repeats that element for each "
                "user"
            )


class HttpUsersOptions(UserColumnOptions, HttpOptions):
    """All users, in the answer to one GET.

    The answer has an array of users: their keys, or objects with the key and the segments.
    """

    user: ColumnName = "user"
    """Name of the field with the user's key in each object."""
    users: Expression = "@"
    """JMESPath to the array of users in the answer."""

    def _problems(self) -> Iterator[str]:
        if placeholders(self.url.get_secret_value()) - {"slot"}:
            yield (
                "url may contain only {slot:...}, because one request gets all users: leave out "
                "other placeholders"
            )


HTTP = SourceKind(
    lists=Reader(
        HttpSourceOptions,
        "monitor.sources.http.source:HttpSource",
        "A recommender over HTTP, with one user or a batch of users in each request.",
    ),
    users=Reader(
        HttpUsersOptions,
        "monitor.sources.http.users:HttpUsers",
        "The users in the answer to one GET.",
    ),
)
