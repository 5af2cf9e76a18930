"""Lists and users from Redis or Valkey: the kind of source and its options."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from monitor.boundary.options import NOT_IN_HASH, Duration, Options, must, readable_by
from monitor.boundary.redaction import require_encoded_login
from monitor.boundary.slot_templates import check_placeholders, placeholders
from monitor.model.unreadable import MAX_UNREADABLE
from monitor.sources.expressions import Expression
from monitor.sources.kinds import Reader, SourceKind
from monitor.sources.table_options import IdForms, MaxUnreadable, NoItem

_URL = re.compile(
    r"(unix://([^@/?#]*@)?/|rediss?(\+sentinel|\+cluster)?://([^@/?#]*@)?[\w.:,\[\]-]+)[^@?#]*"
    r"(\?(&?(db|sentinel_password|ssl_(ca_certs|certfile|keyfile|check_hostname|cert_reqs))"
    r"=[^&@]*)+)?"
)
_HASH_TAG = re.compile(r"\{([^{}]*\{[^{}]*\}[^{}]*)\}")

_is_url = must(
    _URL.fullmatch,
    "is not an address of Redis: write redis://user:password@host:6379/0, with special characters "
    "of the password as %XX",
)


def _check_template(template: str) -> None:
    check_placeholders(_HASH_TAG.sub(r"\1", template), "user", "k")


Template = Annotated[
    str,
    Field(min_length=1, max_length=1000),
    readable_by(_check_template),
]


class RedisOptions(Options):
    """The address of Redis or Valkey."""

    url: Annotated[SecretStr, readable_by(require_encoded_login), _is_url]
    """The URL of the server, in the form `redis://user:password@host:6379/0`, `unix:///path?db=0`,
    `redis+sentinel://host,host/service/0` or `redis+cluster://host,host`. To use TLS, write
    `rediss` instead of `redis`. You can append `?ssl_ca_certs=/path`, `&ssl_certfile=...` and
    `&sentinel_password=...`. rankwatch never writes to Redis, so use an account with read-only
    access."""


class RedisSourceOptions(RedisOptions):
    """One arm's lists in Redis. Each user's list has its own key, or its own field of a hash."""

    type: Literal["zset", "list", "string", "hash"]
    """The type of the key. `zset` is a sorted set of ids, and `list` is a list of ids. `string` is
    a string that contains JSON, and `hash` is a hash with JSON in one field."""
    key: Template
    """The key of a user's list, such as `recs:v2:{user}`. rankwatch also replaces `{k}` and
    `{slot:%Y-%m-%d}`. In `recs:{{user}}`, the outer braces remain in the key, because a cluster
    uses them as the hash tag."""
    field: Template | None = None
    """The field of the hash. Write `{user}` either in this field or in `key`."""
    items: Expression = "@"
    """The JMESPath to the array of item ids in the JSON, with the best item first."""
    scores: Expression | Literal[True] | None = None
    """Where to find the scores that the model gave. If `type` is `zset`, set `true` to read the
    scores that are stored in the sorted set. If the lists are in JSON, write the JMESPath to the
    array of scores, which are in the order of the items. Items with equal scores are tied."""
    item_ids: IdForms = None
    no_item: NoItem = None
    max_unreadable: MaxUnreadable = MAX_UNREADABLE
    batch: Annotated[int, NOT_IN_HASH] = Field(default=500, ge=1, le=10_000)
    """The number of users whose lists are read in one request."""
    timeout: Annotated[Duration, NOT_IN_HASH] = timedelta(seconds=5)
    """How long to wait for a connection, and for the next part of a response."""
    max_bytes: Annotated[int, NOT_IN_HASH] = Field(default=2**17, ge=1024, le=2**29)
    """The maximum size of one user's JSON, in bytes. If a user's JSON is larger, the user is
    counted as `too_large`."""

    def _problems(self) -> Iterator[str]:
        has_one_user = f"{self.key}{self.field}".count("{user}") == 1
        has_field = self.field is not None
        if not has_one_user or has_field != (self.type == "hash"):
            yield (
                "write {user} once in key, or once in field with type: hash, because all users "
                "would get the same list without it"
            )
        needs_json = self.items != "@" or isinstance(self.scores, str)
        lacks_json = needs_json and self.type not in ("string", "hash")
        lacks_scores = self.scores is True and self.type != "zset"
        if lacks_json or lacks_scores:
            yield (
                "use items, and an expression in scores, only for JSON in a string or hash; use "
                "scores: true only for a zset"
            )


class RedisUsersOptions(RedisOptions):
    """Users in Redis. The users are the members of a set, or parts of the names of keys."""

    key: Template
    """The key of a set whose members are the users. You can also write a pattern with `{user}`,
    such as `recs:v2:{user}`. rankwatch then uses SCAN to find the keys that match the pattern. For
    example, the key `recs:v2:ann` belongs to the user `ann`. rankwatch replaces `{slot:%Y-%m-%d}`
    with the slot."""
    timeout: Annotated[Duration, NOT_IN_HASH] = timedelta(minutes=5)
    """How long it may take to read all users."""
    max_unreadable: MaxUnreadable = MAX_UNREADABLE
    max_rows: Annotated[int, NOT_IN_HASH] = Field(default=5_000_000, ge=1, le=10**8)
    """The maximum number of users. If there are more users, the run fails."""


_SOURCE = "monitor.sources.redis.source"


def _is_live(options: RedisSourceOptions) -> bool:
    return "slot" not in placeholders(f"{options.key}{options.field}")


REDIS = SourceKind(
    lists=Reader(
        RedisSourceOptions,
        f"{_SOURCE}:RedisSource",
        "Redis or Valkey. This source requires the extra `redis`.",
    ),
    is_live=_is_live,
    users=Reader(RedisUsersOptions, f"{_SOURCE}:RedisUsers", "Users in Redis or Valkey."),
)
