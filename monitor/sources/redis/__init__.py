"""Lists and users from Redis or Valkey: the kind and its options."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from monitor.model.unreadable import MAX_UNREADABLE
from monitor.options import NOT_IN_HASH, Duration, Options, must, readable_by
from monitor.slot_templates import check_placeholders, placeholders
from monitor.sources.expressions import Expression
from monitor.sources.kinds import Reader, SourceKind
from monitor.sources.table_options import IdForms, MaxUnreadable, NoItem

_URL = re.compile(
    r"(unix://([^@/?#]*@)?/|rediss?(\+sentinel|\+cluster)?://([^@/?#]*@)?[\w.:,\[\]-]+)[^@?#]*"
    r"(\?(&?(db|sentinel_password|ssl_(ca_certs|certfile|keyfile|check_hostname|cert_reqs))=[^&@]*)+)?"
)
_HASH_TAG = re.compile(r"\{([^{}]*\{[^{}]*\}[^{}]*)\}")

_is_url = must(
    _URL.fullmatch,
    (
        "is no address of Redis: expected redis://user:password@host:6379/0, special characters "
        "of a password as %XX"
    ),
)
Template = Annotated[
    str,
    Field(min_length=1, max_length=1000),
    readable_by(lambda template: check_placeholders(_HASH_TAG.sub(r"\1", template), "user", "k")),
]


class RedisOptions(Options):
    """Where Redis or Valkey is."""

    url: Annotated[SecretStr, _is_url] = Field(
        description="`redis://user:password@host:6379/0`, `unix:///path?db=0`, "
        "`redis+sentinel://host,host/service/0` or `redis+cluster://host,host`; "
        "`rediss` in place of `redis` is TLS. `?ssl_ca_certs=/path`, "
        "`&ssl_certfile=...`, `&sentinel_password=...` may follow. It is only read "
        "from; give a user who may do no more."
    )


class RedisSourceOptions(RedisOptions):
    """One arm's lists in Redis, each in a key or a hash's field of its own."""

    type: Literal["zset", "list", "string", "hash"] = Field(
        description=(
            "What the key holds: the list as a sorted set or a list, or JSON in a string "
            "or in a field of a hash."
        )
    )
    key: Template = Field(
        description="The key, such as `recs:v2:{user}`; `{k}` and `{slot:%Y-%m-%d}` are filled "
        "in, too. Braces around a placeholder are kept: `recs:{{user}}` has the hash "
        "tag of a cluster."
    )
    field: Template | None = Field(
        default=None, description="The field of a hash; `{user}` may stand here instead."
    )
    items: Expression = Field(
        default="@", description="JMESPath to the array of item ids in the JSON, best first."
    )
    scores: Expression | Literal[True] | None = Field(
        default=None,
        description="The model's own scores, of which equal ones are ties: `true` for those of a "
        "sorted set, or JMESPath to their array in the JSON, one an item in the "
        "items' order.",
    )
    item_ids: IdForms = None
    no_item: NoItem = None
    max_unreadable: MaxUnreadable = MAX_UNREADABLE
    batch: Annotated[int, NOT_IN_HASH] = Field(
        default=500, ge=1, le=10_000, description="Users asked for in one round trip."
    )
    timeout: Annotated[Duration, NOT_IN_HASH] = Field(
        default=timedelta(seconds=5),
        description="Longest time to connect, and to wait for more of an answer.",
    )
    max_bytes: Annotated[int, NOT_IN_HASH] = Field(
        default=2**17,
        ge=1024,
        le=2**29,
        description="Largest JSON of one user; longer ones are not taken.",
    )

    def _problems(self) -> Iterator[str]:
        has_json = self.type in ("string", "hash")
        if f"{self.key}{self.field}".count("{user}") != 1 or (self.field is None) == (
            self.type == "hash"
        ):
            yield (
                "key must contain {user} once, or field, which goes with type: hash alone: "
                "else all users get the same list"
            )
        of_json = self.items != "@" or isinstance(self.scores, str)
        if (of_json and not has_json) or (self.scores is True and self.type != "zset"):
            yield (
                "items and an expression as scores are for JSON in a string or hash, scores: "
                "true for a zset"
            )


class RedisUsersOptions(RedisOptions):
    """Users in Redis: members of a set, or what the names of keys have in common."""

    key: Template = Field(
        description="The set's key; or, such as `recs:v2:{user}`, what each user's key looks "
        "like: SCAN then looks for them. `{slot:%Y-%m-%d}` is filled in."
    )
    timeout: Annotated[Duration, NOT_IN_HASH] = Field(
        default=timedelta(minutes=5), description="Longest time to read them."
    )
    max_unreadable: MaxUnreadable = MAX_UNREADABLE
    max_rows: Annotated[int, NOT_IN_HASH] = Field(
        default=5_000_000, ge=1, le=10**8, description="Most of them."
    )


_SOURCE = "monitor.sources.redis.source"

REDIS = SourceKind(
    lists=Reader(
        RedisSourceOptions, f"{_SOURCE}:RedisSource", "Redis or Valkey. Needs the extra `redis`."
    ),
    is_live=lambda options: "slot" not in placeholders(f"{options.key}{options.field}"),
    users=Reader(RedisUsersOptions, f"{_SOURCE}:RedisUsers", "Users in Redis or Valkey."),
)
