"""The configuration file as typed, frozen options: every part's own, joined. What they must agree on is in `checks`."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, ValidationInfo, field_validator, model_validator

from monitor.arm_metrics import ARM_METRICS
from monitor.model import Cutoffs, NoiseFloor
from monitor.options import ConfigPath, Duration, OneOf, Options
from monitor.receivers import PingOptions, ReceiverOptions
from monitor.redaction import display_url
from monitor.settings.condition_options import ConditionsOptions
from monitor.settings.notification_options import MaintenanceOptions, RouteOptions
from monitor.settings.rule_options import RuleOptions, RulesOrDefault
from monitor.settings.value_types import (
    Address,
    ArmMetricName,
    ComparisonName,
    CronText,
    DatabaseUrl,
    LeaseTime,
    MetricName,
    PublicUrl,
    Size,
    ZoneName,
    split_address,
)
from monitor.sources import ItemTitlesOptions, ItemWeightsOptions, RelevanceOptions, SourceOptions, UsersOptions
from monitor.web import AccessOptions


class RetentionOptions(Options):
    """How long what runs found is kept. Alert states are kept as long as they stand."""

    scores: Duration = Field(
        default=timedelta(days=30), description="Scores of each user. On PostgreSQL they may stay up to two days longer."
    )
    lists: Duration | None = Field(
        default=None,
        description="Lists of all compared users, at most: they go once nothing needs them (default: as `scores`).",
    )
    evidence: Duration = Field(default=timedelta(days=90), description="Lists of example users, and explanations.")
    summaries: Duration | None = Field(
        default=None,
        description="Summaries, coverage and expectations of segments other than `all`; what rules learned from them stays "
        "(default: as `runs`).",
    )
    runs: Duration = Field(default=timedelta(days=400), description="Runs, and with them all that belongs to them.")
    daily: Duration = Field(default=timedelta(days=5 * 365), description="What each UTC day came to, by segment and metric.")
    max_size: Size | None = Field(
        default=None,
        description="Bytes that the database may take. Nearing it the oldest scores of users go early, then lists and "
        "evidence, then summaries of segments; runs and alerts never.",
        examples=["20GB"],
    )

    def cutoffs(self, now: datetime) -> Cutoffs:
        """What goes at this time."""
        return Cutoffs(
            scores=now - self.scores,
            lists=now - (self.lists or self.scores),
            evidence=now - self.evidence,
            summaries=now - (self.summaries or self.runs),
            runs=now - self.runs,
            daily=now - self.daily,
            max_bytes=self.max_size,
        )


class NoiseFloorOptions(OneOf):
    """How similar the baseline is to itself, which tells drift from noise."""

    serve: Literal[True] | None = Field(default=None, description="The baseline is asked twice at the same moment.")
    temporal: Literal[True] | None = Field(
        default=None, description="The baseline now against its lists of the last run, which are kept for this."
    )
    retrain: SourceOptions | None = Field(
        default=None, description="A second training of the baseline's model: where its lists come from."
    )

    @property
    def kind(self) -> NoiseFloor:
        """Which one it is."""
        return next(kind for kind in NoiseFloor if getattr(self, kind) is not None)


class ComparisonOptions(Options):
    """What is watched: two arms, the users both are asked for, how alike is measured, and when to alert."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["every"]}, {"required": ["cron"]}]})

    name: ComparisonName = Field(
        description="Name, unique in the file; a metric label and part of URLs.", examples=["home-feed"]
    )
    description: str | None = Field(default=None, max_length=1000, description="What it is, for people.")
    every: Duration | None = Field(
        default=None, description="Time between runs, counted from 1970-01-01 00:00 UTC: `15m` runs at :00, :15, :30, :45."
    )
    cron: CronText | None = Field(
        default=None,
        description="Instead of `every`: minute, hour, day, month, weekday as in crontab(5); 0 and 7 are Sunday.",
        examples=["*/15 * * * *", "30 6 * * mon-fri"],
    )
    timezone: ZoneName = Field(default="UTC", description="Time zone of `cron`.", examples=["Europe/Berlin"])
    k: int = Field(default=10, ge=1, le=10_000, description="Length of the lists that are compared.")
    baseline: SourceOptions = Field(description="Where the lists in use come from.")
    candidate: SourceOptions = Field(description="Where the lists on trial come from.")
    users: UsersOptions = Field(description="Whom both arms are asked for.")
    metrics: tuple[MetricName, ...] = Field(
        default=("extended_tau", "rbo(p=0.9)", "overlap"),
        min_length=1,
        max_length=50,
        description="Measures of how alike two lists are; `rankwatch metrics` lists them. A name with a comma needs quotes.",
        examples=[["extended_tau", "rbo(p=0.9)", "overlap"]],
    )
    arm_metrics: tuple[ArmMetricName, ...] = Field(
        default=("catalogue_coverage", "exposure_gini", "exposure_entropy"),
        max_length=50,
        description=f"Measures of each arm over all its lists: {', '.join(f'`{name}`' for name in ARM_METRICS)}.",
    )
    catalogue_size: int | None = Field(
        default=None, ge=1, le=10**12, description="Items that could be listed (default: as many as either arm lists)."
    )
    item_weights: ItemWeightsOptions | None = Field(
        default=None, description="Weights of items, such as popularity or price, for the metrics that need them."
    )
    item_titles: ItemTitlesOptions | None = Field(
        default=None, description="Titles of items, as explanations name them; without it they go by their ids."
    )
    relevance: RelevanceOptions | None = Field(
        default=None,
        description="What users found relevant, for the metrics that need it; it may arrive days later. Never judged by rules.",
    )
    noise_floor: NoiseFloorOptions | None = Field(
        default=None,
        description="What the baseline is compared with to see how similar it is to itself: `{serve: true}`, "
        "`{temporal: true}` or `{retrain: SOURCE}`. Gives each metric M two more for rules: `floor(M)`, and `over_floor(M)`, "
        "how much farther the candidate is from the baseline, user by user.",
    )
    false_alarm_every: Duration = Field(
        default=timedelta(days=90),
        description="How often on-call accepts to be woken for nothing by the rules that learn what is normal, all together.",
    )
    rules: Annotated[tuple[RuleOptions, ...], RulesOrDefault()] = Field(
        default=(),
        max_length=200,
        description="When to alert; or the word `default`: rules that learn what is normal and need no numbers.",
    )
    default_rules: bool = Field(
        default=False,
        description="Whether the rules that need no numbers are added to `rules`; one of the same name replaces theirs.",
    )
    dry_run: bool = Field(
        default=False,
        description="Whether the alerts of this comparison are only recorded and nobody is told, unless a rule says otherwise.",
    )
    conditions: ConditionsOptions = Field(
        default_factory=ConditionsOptions,
        description="What happens while nothing can be said of drift, key by key in place of the `conditions` for all.",
    )
    group_for: Duration | None = Field(
        default=None,
        description="How long after its last firing began further ones of the same severity join an incident and are told as "
        "part of it, at most seven times that after its first (default: a day, or three intervals where these are longer).",
    )
    deadline: Duration | None = Field(
        default=None,
        description="Longest time for one run, below the interval (default: 10m, at most 0.8 of the interval).",
    )
    min_paired_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="A run that compares a smaller share of its users is `insufficient`.",
    )
    max_segment_values: int = Field(
        default=50, ge=1, le=1000, description="Most values kept of one segment dimension, the most frequent ones."
    )
    evidence_users: int = Field(default=10, ge=0, le=1000, description="Users of each kind whose lists are kept to be read.")
    keep_scores: bool = Field(default=True, description="Whether the scores of each user are stored, not only their summary.")
    keep_lists: bool | None = Field(
        default=None,
        description="Whether the lists of all compared users are stored (default: if relevance, a temporal noise floor or an "
        "arm metric needs them).",
    )
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="Seed of the users drawn.")
    reference: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="A name for what is normal. Under another one rules learn anew from the runs to come: to accept a change.",
        examples=["since release 42"],
    )

    @model_validator(mode="before")
    @classmethod
    def _read_default_rules(cls, data: Any) -> Any:  # noqa: ANN401 - raw input is anything
        """``rules: default`` says ``default_rules: true``."""
        if not isinstance(data, Mapping) or data.get("rules") != "default":
            return data
        return {"default_rules": True, **{key: value for key, value in data.items() if key != "rules"}}


class LogOptions(Options):
    """What the daemon writes to standard error."""

    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto`: `console` on a terminal, else `json`."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="The least that is written.")


def _own_url(given: dict[str, Any]) -> str:
    host, port = split_address(given.get("listen", "127.0.0.1:29108"))
    name = socket.gethostname() if host in {"", "0.0.0.0", "::"} else host  # noqa: S104 - compared, not bound
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


class Settings(Options):
    """The whole file."""

    _access: AccessOptions | None = PrivateAttr(default=None)
    database: DatabaseUrl = Field(
        default=SecretStr("sqlite:///rankwatch.db"),
        validate_default=True,
        description="SQLAlchemy URL, SQLite or PostgreSQL. A relative SQLite path starts at this file's directory.",
        examples=["sqlite:///rankwatch.db", "postgresql://rankwatch:${DB_PASSWORD}@db.internal/rankwatch"],
    )
    max_series: int = Field(
        default=10_000,
        ge=0,
        le=1_000_000,
        description="Most series of segments on /metrics; of more the smallest segments are left out, which "
        "`rankwatch_series_cut` counts. Segment `all` and alerts that fire or are pending are always there.",
    )
    lease: LeaseTime = Field(
        default=timedelta(seconds=15),
        description="Of several daemons on one PostgreSQL database one leads; how long after it stopped or froze another takes "
        "over, 5s to 5m.",
    )
    listen: Address = Field(default="127.0.0.1:29108", description="Host and port of /metrics, /-/healthy and /-/ready.")
    listen_without_authentication: bool = Field(
        default=False,
        description="Must be true for `listen` to go beyond this machine without passwords or client certificates from "
        "`web_config_file`: whoever reaches the port can then read everything there.",
    )
    web_config_file: ConfigPath | None = Field(
        default=None,
        description="A file with TLS, client certificates and basic authentication for `listen`, in the form of Prometheus' "
        "exporter-toolkit; certificates are read again when their files change, the file itself with this one.",
        examples=["web.yaml"],
    )
    external_url: PublicUrl = Field(
        default_factory=_own_url,
        description="How people reach this daemon, for links in alerts (default: from `listen`, https with TLS).",
    )
    conditions: ConditionsOptions = Field(
        default_factory=ConditionsOptions, description="What happens in every comparison while nothing can be said of drift."
    )
    comparisons: tuple[ComparisonOptions, ...] = Field(min_length=1, max_length=1000, description="What is watched.")
    receivers: tuple[ReceiverOptions, ...] = Field(
        default=(), max_length=100, description="Who is told when an alert fires or resolves."
    )
    pings: tuple[PingOptions, ...] = Field(
        default=(), max_length=100, description="Dead-man pings: who hears of every run, so that silence is noticed."
    )
    concurrent_runs: int = Field(
        default=8, ge=1, le=100, description="How many runs may be at work at once; who has waited longest comes first."
    )
    database_alert_after: Duration = Field(
        default=timedelta(minutes=2),
        description="How long the database may be away before every receiver is told so directly (alert `DatabaseAway`).",
    )
    routes: tuple[RouteOptions, ...] = Field(
        default=(),
        max_length=200,
        description="Which receivers hear of which alerts: the first route that matches decides. What none matches is told to "
        "all, and without routes everything is.",
    )
    fallbacks: Mapping[str, str] = Field(
        default_factory=dict,
        description="By receiver, the one that is told in its place what it refuses for good, such as `{pagerduty: email}`.",
        examples=[{"pagerduty": "email"}],
    )
    maintenance: tuple[MaintenanceOptions, ...] = Field(
        default=(), max_length=100, description="Times in which alerts are held back; what still fires afterwards is told then."
    )
    retention: RetentionOptions = Field(default_factory=RetentionOptions, description="How long results are kept.")
    log: LogOptions = Field(default_factory=LogOptions, description="What is logged.")

    @field_validator("comparisons")
    @classmethod
    def _pass_on_conditions(
        cls, comparisons: tuple[ComparisonOptions, ...], info: ValidationInfo
    ) -> tuple[ComparisonOptions, ...]:
        """Each comparison's conditions over those for all; these stand before the comparisons, so they are read by now."""
        defaults = info.data.get("conditions", ConditionsOptions())
        return tuple(each.model_copy(update={"conditions": each.conditions.over(defaults)}) for each in comparisons)

    @property
    def access(self) -> AccessOptions | None:
        """What the web configuration file said when it was found right; None without one. Nobody reads it a second time."""
        return self._access

    def with_access(self, access: AccessOptions | None) -> Self:
        """These with what that file says; links lead to https where that is served and nothing else was said."""
        is_encrypted = access is not None and access.tls_server_config.is_on
        links = {"external_url": self.external_url.replace("http://", "https://", 1)}
        found = self.model_copy(update=links if is_encrypted and "external_url" not in self.model_fields_set else {})
        found._access = access  # noqa: SLF001 - a copy of these
        return found

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port to bind; the host is empty for all interfaces."""
        return split_address(self.listen)

    @property
    def database_display(self) -> str:
        """The database's URL as it may be shown."""
        return display_url(self.database)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What identifies the settings; sources and receivers by name only."""
        yield "database", self.database_display
        yield "listen", self.listen
        yield "comparisons", [each.name for each in self.comparisons]
        yield "receivers", [name for entry in self.receivers for name in entry.receiver_names]
