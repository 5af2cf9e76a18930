"""Lists and users from tables that Spark reads: the kind of source and its options."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from monitor.boundary.options import NOT_IN_HASH, Options, must, readable_by
from monitor.boundary.redaction import require_encoded_login
from monitor.boundary.slot_templates import check_placeholders, placeholders
from monitor.sources.kinds import Reader, SourceKind, imported_when_called
from monitor.sources.table_options import ListColumnOptions, UserColumnOptions

_Location = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(check_placeholders)]


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:  # it may quote the URL
        return False
    return parts.scheme == "sc" and bool(parts.hostname)


_is_remote = must(
    _is_address,
    "is not an address of Spark Connect: write sc://host:15002, and append /;token=... if needed",
)


class SparkOptions(Options):
    """A table in a catalogue or at a path. Each slot can have its own table."""

    remote: Annotated[SecretStr, readable_by(require_encoded_login), _is_remote, NOT_IN_HASH]
    """The address of the Spark Connect server, such as `sc://host:15002`. Both arms and the users
    must use the same address."""
    table: _Location | None = None
    """The name of a table in a catalogue of the cluster, such as `lake.recs.lists`. rankwatch
    replaces `{slot:%Y%m%d}` with the run's scheduled time (UTC)."""
    path: _Location | None = None
    """A path that the cluster can read, such as `s3a://lake/lists/{slot:%Y-%m-%d}`. Set either
    `path` or `table`."""
    format: Literal["parquet", "delta", "iceberg", "orc"] = "parquet"
    """The format of the files at `path`."""
    conf: Annotated[Mapping[str, SecretStr], NOT_IN_HASH] = Field(default_factory=dict)
    """Settings for the Spark session, such as `spark.sql.execution.pyspark.python`, which sets the
    Python of the executors."""

    def _problems(self) -> Iterator[str]:
        if (self.table is None) == (self.path is None):
            yield "give either table or path"
        if getattr(self, "user_ids", None):
            yield "spark does not support user_ids: rewrite the users in a view"


class SparkSourceOptions(ListColumnOptions, SparkOptions):
    """One arm's lists in Spark."""


class SparkUsersOptions(UserColumnOptions, SparkOptions):
    """Users in Spark, with one user in each row.

    A user with several rows counts once. A row without a user is unreadable.
    """


def _is_live(options: SparkSourceOptions) -> bool:
    return "slot" not in placeholders(options.table or str(options.path))


def _all_users(lists: SparkSourceOptions) -> SparkUsersOptions:
    names = SparkUsersOptions.model_fields
    return SparkUsersOptions(**{name: getattr(lists, name) for name in names})


_NOT_PULLED = "monitor.sources.spark.joined:OnlyJoined"


SPARK = SourceKind(
    lists=Reader(
        SparkSourceOptions,
        _NOT_PULLED,
        "A table or path that Spark reads. The cluster joins the lists of both arms with the "
        "users, and computes the metrics. For this reason, both arms and `users` must use "
        "`spark`. Every run compares all users. This source requires the extra `spark`.",
    ),
    is_live=_is_live,
    all_users=_all_users,
    joined=imported_when_called("monitor.sources.spark.joined:join_in_spark"),
    is_pulled=False,
    users=Reader(SparkUsersOptions, _NOT_PULLED, "Users in a table or path that Spark reads."),
)
