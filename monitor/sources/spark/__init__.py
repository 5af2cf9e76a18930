"""Lists and users from tables that Spark reads: the kind and its options."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from monitor.options import NOT_IN_HASH, Options, must
from monitor.slot_templates import check_placeholders, placeholders
from monitor.sources.kinds import Reader, SourceKind
from monitor.sources.table_options import ListColumnOptions, UserColumnOptions

_Place = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(check_placeholders)]

_is_remote = must(
    lambda text: urlsplit(text).scheme == "sc" and urlsplit(text).hostname,
    (
        "is no address of Spark Connect: expected sc://host:15002, with /;token=... and the like "
        "behind it"
    ),
)


class SparkOptions(Options):
    """One table a slot, of a catalogue or at a path."""

    remote: Annotated[SecretStr, _is_remote, NOT_IN_HASH] = Field(
        description=(
            "Address of the Spark Connect server: `sc://host:15002`, the same for both "
            "arms and the users."
        )
    )
    table: _Place | None = Field(
        default=None,
        description="Table by its name in a catalogue of the cluster: `lake.recs.lists`; "
        "`{slot:%Y%m%d}` becomes the run's scheduled time (UTC).",
    )
    path: _Place | None = Field(
        default=None,
        description=(
            "Instead of `table`: a path that the cluster reads, such as "
            "`s3a://lake/lists/{slot:%Y-%m-%d}`."
        ),
    )
    format: Literal["parquet", "delta", "iceberg", "orc"] = Field(
        default="parquet", description="Format of what is at `path`."
    )
    conf: Annotated[Mapping[str, SecretStr], NOT_IN_HASH] = Field(
        default_factory=dict,
        description=(
            "Settings of the Spark session, such as `spark.sql.execution.pyspark.python`, the "
            "executors' Python."
        ),
    )

    def _problems(self) -> Iterator[str]:
        if (self.table is None) == (self.path is None):
            yield "give either table or path"
        if getattr(self, "user_ids", None):
            yield "user_ids is not known to spark: spell users in a view that it reads"


class SparkSourceOptions(ListColumnOptions, SparkOptions):
    """One arm's lists in Spark."""


class SparkUsersOptions(UserColumnOptions, SparkOptions):
    """Users in Spark, one a row.

    A user listed twice counts once, and rows without a user are counted as unreadable.
    """


SPARK = SourceKind(
    lists=Reader(
        SparkSourceOptions,
        "monitor.sources.spark.joined:OnlyJoined",
        "A table or path that Spark reads. Both arms and the users are joined and measured on the "
        "cluster: all of them are `spark`, and everybody is asked. Needs the extra `spark`.",
    ),
    is_live=lambda options: "slot" not in placeholders(options.table or options.path),
    all_users=lambda options: SparkUsersOptions(
        **{name: getattr(options, name) for name in SparkUsersOptions.model_fields}
    ),
    joined="monitor.sources.spark.joined:join_in_spark",
    is_pulled=False,
    users=Reader(
        SparkUsersOptions,
        "monitor.sources.spark.joined:OnlyJoined",
        "Users in a table or path that Spark reads.",
    ),
)
