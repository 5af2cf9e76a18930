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
from monitor.boundary.options.problems import with_key_paths
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
    """Signs each request with a keyed hash (HMAC). The request contains the hash and the time."""

    secret: SecretStr = Field(min_length=1)
    """The secret key of the hash."""
    signs: str = "{timestamp}.{body}"
    """The text to hash. rankwatch replaces `{method}`, `{target}`, `{timestamp}` and `{body}` with
    the values of the request. `{target}` is the path with the query, percent-encoded as in the
    request."""
    digest: Literal["sha256", "sha1", "sha512"] = "sha256"
    """The hash function."""
    encoding: Literal["hex", "base64"] = "hex"
    """The encoding of the hash."""
    place: Literal["header", "query"] = "header"
    """Whether to send the hash and the time in headers or in the query. If you choose `query`, the
    time is also part of the query string in `{target}`."""
    timestamp: HeaderText = "X-Timestamp"
    """Name of the header or parameter with the time, in Unix seconds."""
    signature: HeaderText = "X-Signature"
    """Name of the header or parameter with the hash."""


class AwsOptions(Options):
    """Signature version 4 of AWS. Needs the extra ``aws``."""

    region: HeaderText
    """The AWS region, such as eu-west-1."""
    service: HeaderText = "execute-api"
    """The name of the service for which requests are signed."""
    access_key: SecretStr | None = None
    """The access key. If you do not set an access key, rankwatch looks for credentials in the same
    places as AWS's own tools."""
    secret_key: SecretStr | None = None
    """The secret key that belongs to the access key."""

    def _problems(self) -> Iterator[str]:
        if bool(self.access_key) is not bool(self.secret_key):
            yield "give both access_key and secret_key, or neither of them"


_is_token_url = must(
    re.compile("https?://[^@]+").fullmatch,
    "must be a URL without user and password: https://host/path",
)


class OAuth2Options(Options):
    """OAuth 2 client credentials (RFC 6749, section 4.4).

    rankwatch uses a token until it expires. After a response with status 401, rankwatch fetches
    a new token.
    """

    token_url: Annotated[SecretStr, _is_token_url]
    """The URL from which rankwatch fetches tokens. The URL is a secret, and rankwatch never shows
    it."""
    client_id: HeaderText
    """The id of the client."""
    client_secret: SecretStr
    """The secret of the client."""
    scope: str | None = None
    """The scopes, separated by spaces."""
    audience: str | None = None
    """The audience to request for the tokens, if the server requires an audience."""


class AuthOptions(OneOf):
    """How requests authenticate. Set exactly one of these keys."""

    hmac: HmacOptions | None = None
    """A keyed hash of each request."""
    aws: AwsOptions | None = None
    """Signature version 4 of AWS."""
    oauth2: OAuth2Options | None = None
    """OAuth 2 client credentials."""


class HttpOptions(Options):
    """The address of a server, and how to send requests to it."""

    url: Annotated[SecretStr, readable_by(_check_url)]
    """The URL to request. rankwatch replaces `{slot:%Y-%m-%d}` with the run's slot. rankwatch does
    not follow redirects."""
    headers: Annotated[dict[str, SecretStr], AfterValidator(check_headers)] = Field(
        default_factory=dict
    )
    """The headers to send. To read the value of a header from a file, write `Name_file: path`."""
    token: HeaderSecret | None = None
    """Token for the header `Authorization: Bearer`."""
    auth: Annotated[AuthOptions | None, NOT_IN_HASH] = None
    """How requests authenticate. Instead of `auth`, you can use `token` or `headers`, or you can
    include the user name and password in `url`."""
    ca_file: Annotated[ConfigPath | None, NOT_IN_HASH] = None
    """A PEM file with the certificate authorities to trust for https, instead of the system's
    authorities."""
    cert_file: Annotated[ConfigPath | None, NOT_IN_HASH] = None
    """A PEM file with the client certificate for https."""
    key_file: Annotated[ConfigPath | None, NOT_IN_HASH] = None
    """A PEM file with the key of the client certificate, without a password. You do not need this
    file if `cert_file` also contains the key."""
    proxy: Proxy = None
    allow_link_local: Annotated[bool, NOT_IN_HASH] = False
    """Whether `url` and `token_url` may use link-local addresses, such as 169.254.169.254, where
    cloud providers serve the credentials of a machine. Private addresses are always allowed."""
    timeout: Annotated[Duration, NOT_IN_HASH] = timedelta(seconds=5)
    """How long one request may take, from connecting until the last byte arrives."""
    max_bytes: Annotated[int, NOT_IN_HASH] = Field(default=2**20, ge=1024, le=2**30)
    """The maximum size of a response, in bytes after decompression. A larger response is an
    error."""

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
    """A recommender that responds with JSON.

    A response contains the list of one user, or the lists of a batch of users.
    """

    url: Annotated[SecretStr, readable_by(_check_url)]
    """The URL to request. rankwatch replaces `{user}`, `{k}` and `{slot:%Y-%m-%d}` with
    percent-encoded values. rankwatch replaces `{users}` with a batch of users, separated by commas.
    rankwatch does not follow redirects."""
    profile: Annotated[str | None, NOT_IN_HASH] = None
    """The name of a profile with default options for a known API (docs/reference/http-profiles.md),
    or the path of your own profile, such as `./FILE.yaml`. With a profile, `url` is only the
    server's address. Mappings that you set, such as `headers`, are merged with the mappings in the
    profile."""
    with_: Annotated[dict[str, Any] | None, NOT_IN_HASH] = Field(
        default=None, alias="with", repr=False, exclude=True
    )
    """Values for the variables of the profile."""
    endpoint: str | None = None
    """The path that rankwatch appends to `url`. The path may contain placeholders. All built-in
    profiles set this path."""
    batch: Annotated[int | None, NOT_IN_HASH] = Field(default=None, ge=1, le=10_000)
    """The maximum number of users in one request. If a response has the status 413 or is larger
    than `max_bytes`, rankwatch halves the number of users in later requests."""
    answers: Expression | None = None
    """With `batch`: the JMESPath to the users' entries in the response (default: the whole
    response). The entries are an array, or an object with one key for each user. If `user` is not
    set, the array must be in the same order as the users in the request. The paths in `items`,
    `scores` and `user` are relative to each entry."""
    items: Expression = "@"
    """The JMESPath to the array of item ids in the response, with the best item first."""
    scores: Expression | None = None
    """The JMESPath to the array of the scores that the model gave, in the same order as the items.
    Items with equal scores are tied."""
    item_ids: IdForms = None
    no_item: NoItem = None
    user: Expression | None = None
    """The JMESPath to the user's key in the response. If the response contains a key other than the
    requested user's, the user is counted as wrong_user."""
    error: Expression | None = None
    """The JMESPath to an error in the response. If the value at this path is true, the response is
    counted as http_error. With `batch`, rankwatch looks for an error in the whole response and in
    each user's entry."""
    model_version: Annotated[Expression | None, NOT_IN_HASH] = None
    """The JMESPath to the version of the model that made the list. With `batch`, rankwatch looks
    for the version first in each user's entry, and then in the whole response."""
    model_version_header: Annotated[HeaderText | None, NOT_IN_HASH] = None
    """The name of the response header that contains the version. rankwatch reads this header if
    `model_version` finds nothing."""
    method: Annotated[Literal["GET", "POST"], BeforeValidator(_is_safe_method.func)] = "GET"
    """The HTTP method. The request must be safe to repeat."""
    # The body may contain a key, so neither repr nor a dump shows it.
    body: Any = Field(default=None, repr=False, exclude=True)
    """The JSON to send with POST. rankwatch replaces `{user}`, `{k}` and `{slot:...}` in the
    strings of this JSON. The string `"{k}"` becomes a number. `"{user:int}"` and `"{users:int}"`
    become the users' keys as numbers. With `batch`, the string `"{users}"` becomes the array of
    keys, and `"{count}"` becomes the number of keys. With `batch`, `[{"id": "{user}"}]` becomes an
    array with one such element for each user."""
    concurrency: Annotated[int, NOT_IN_HASH] = Field(default=32, ge=1, le=512)
    """The maximum number of concurrent requests."""
    max_in_flight: Annotated[
        Annotated[int, Field(ge=1)] | Literal["adaptive"] | None, NOT_IN_HASH
    ] = None
    """The maximum number of concurrent requests to the host of `url`, from all comparisons of the
    daemon together. If the maximum is reached, further requests wait. With `adaptive`, rankwatch
    learns how many requests the host can answer at the same time without a queue."""
    max_rate: Annotated[float | None, NOT_IN_HASH] = Field(default=None, gt=0, le=1e6)
    """The maximum number of requests per second to the host of `url`, from all comparisons of the
    daemon together."""
    requests_a_day: Annotated[int | None, NOT_IN_HASH] = Field(default=None, ge=1)
    """The maximum number of requests per day (UTC) to the host of `url`, from all sources that set
    this key. Retries count as requests. When the maximum is reached, rankwatch sends no more
    requests on this day, and counts the remaining users as `too_slow`. The daemon and each command
    count requests from zero when they start."""
    retries: Annotated[int, NOT_IN_HASH] = Field(default=2, ge=0, le=10)
    """How many times a request is retried after a failed connection, a timeout, or a response with
    status 429 or 5xx. If the host asks for a pause (Retry-After), all requests to this host
    wait."""

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
        return with_key_paths(with_profile(data, base), data)

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
    """All users, in the response to a single GET request.

    The response contains an array of users. Each element is a user's key, or an object with the key
    and the segments.
    """

    user: ColumnName = "user"
    """The name of the field that contains the user's key in each object."""
    users: Expression = "@"
    """The JMESPath to the array of users in the response."""

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
        "A recommender that is reached over HTTP. Each request asks for the list of one user, or "
        "for the lists of a batch of users.",
    ),
    users=Reader(
        HttpUsersOptions,
        "monitor.sources.http.users:HttpUsers",
        "The users in the response to a single GET request.",
    ),
)
