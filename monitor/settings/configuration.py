"""The configuration file as typed, frozen options.

What several settings must agree on is in `checks`.
"""

import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, field_validator

from monitor.alerts.notification_policy import MaintenanceWindow, Matcher, Route
from monitor.files import describe_exposure, read_bounded
from monitor.model.retention import Cutoffs
from monitor.options import ConfigPath, Duration, Options, readable_by
from monitor.receivers import PingOptions, ReceiverOptions
from monitor.settings.addresses import DEFAULT_LISTEN, split_address
from monitor.settings.comparison_options import ComparisonOptions, ConditionsOptions
from monitor.settings.schedule import Cron
from monitor.settings.value_types import (
    Address,
    CronText,
    DatabaseUrl,
    LeaseTime,
    PublicUrl,
    ZoneName,
    as_printed_by,
)
from monitor.web.access_options import AccessOptions

LEAST_BYTES = 32
_MOST_BYTES = 4096

MatcherText = Annotated[str, as_printed_by(Matcher.parse)]
"""``name=value``, ``name!=value``, ``name=~"regex"`` or ``name!~"regex"``."""
_MATCHED = (
    "All of them must match: `name=value`, `!=`, `=~` (a regular expression over the whole value) "
    "or `!~`, of `alert`, `comparison`, `segment`, `severity`, `metric`, `statistic` or a label "
    "of the rule."
)


def read_key(path: str) -> bytes:
    """The key that the file holds, without its last line break.

    ValueError where it holds none that is of use.
    """
    try:
        key = read_bounded(path, _MOST_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if len(key) < LEAST_BYTES:
        msg = (
            f"{path} holds {len(key)} bytes: a key has {LEAST_BYTES} at least, such as openssl "
            "rand -hex 32 writes"
        )
        raise ValueError(msg)
    return key


class PrivacyOptions(Options):
    """What of users and items is stored and shown."""

    users: Literal["plain", "hmac"] = Field(
        default="plain",
        description="`hmac`: users are stored and shown by keyed hashes of their ids "
        "(HMAC-SHA-256), everywhere. Sources are asked by the ids, and pages find a "
        "user by the id.",
    )
    key_file: Annotated[ConfigPath, readable_by(read_key)] | None = Field(
        default=None,
        description=f"File with the key of `hmac`, {LEAST_BYTES} bytes or more, such as `openssl "
        "rand -hex 32` writes. With another key a user is another one: nobody's runs "
        "are joined with earlier ones.",
        examples=["users.key"],
    )
    items: Literal["shown", "hidden"] = Field(
        default="shown", description="`hidden`: messages name no items and show no lists; pages do."
    )

    def _problems(self) -> Iterator[str]:
        if (self.users == "hmac") is not (self.key_file is not None):
            yield "give users: hmac and key_file together, or neither"

    @property
    def exposure(self) -> str | None:
        """What to say where every account of this machine may read the key.

        None where there is nothing.
        """
        path = self.key_file
        return (
            None
            if path is None
            else describe_exposure(path, "can tell who users are", f"chmod go= {path}")
        )


class RetentionOptions(Options):
    """How long results are kept. Alert states are kept as long as they last."""

    scores: Duration = Field(
        default=timedelta(days=30),
        description="Scores of each user. On PostgreSQL they are deleted by whole days.",
    )
    lists: Duration | None = Field(
        default=None,
        description=(
            "Lists of all compared users; deleted earlier once nothing needs them "
            "(default: as `scores`)."
        ),
    )
    evidence: Duration = Field(
        default=timedelta(days=90), description="Lists of example users, and explanations."
    )
    summaries: Duration | None = Field(
        default=None,
        description="Summaries, coverage and expectations of segments other than `all`; what "
        "rules learned from them is kept (default: as `runs`).",
    )
    runs: Duration = Field(
        default=timedelta(days=400), description="Runs, with everything that belongs to them."
    )
    daily: Duration = Field(
        default=timedelta(days=5 * 365), description="Daily rollups, by segment and metric."
    )

    def cutoffs(self, now: datetime) -> Cutoffs:
        """What is deleted at this time."""
        return Cutoffs(
            scores=now - self.scores,
            lists=now - (self.lists or self.scores),
            evidence=now - self.evidence,
            summaries=now - (self.summaries or self.runs),
            runs=now - self.runs,
            daily=now - self.daily,
        )


class LogOptions(Options):
    """What the daemon writes to standard error."""

    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto`: `console` on a terminal, else `json`."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is written."
    )


class RouteOptions(Options):
    """Which receivers get which alerts."""

    match: tuple[MatcherText, ...] = Field(
        default=(),
        max_length=50,
        description=f"{_MATCHED} None: every alert.",
        examples=[["severity=critical"]],
    )
    receivers: tuple[str, ...] = Field(
        min_length=1,
        max_length=100,
        description="Names of receivers.",
        examples=[["pagerduty", "slack"]],
    )
    goes_on: bool = Field(
        default=False, alias="continue", description="Whether later routes are tried, too."
    )

    def to_route(self, peers: Mapping[str, Sequence[str]]) -> Route:
        """The route; ``peers`` are the receivers that each name stands for."""
        receivers = frozenset(peer for name in self.receivers for peer in peers.get(name, ()))
        return Route(
            matchers=tuple(map(Matcher.parse, self.match)),
            receivers=receivers,
            goes_on=self.goes_on,
        )


class MaintenanceOptions(Options):
    """A time in which no notifications are sent, such as a nightly retraining."""

    name: str = Field(
        min_length=1, max_length=100, description="Free text.", examples=["retraining"]
    )
    match: tuple[MatcherText, ...] = Field(
        default=(),
        max_length=50,
        description=f"{_MATCHED} None: every alert.",
        examples=[["comparison=home-feed"]],
    )
    cron: CronText = Field(
        description="When it begins: minute, hour, day, month, weekday as in crontab(5).",
        examples=["0 2 * * *"],
    )
    timezone: ZoneName = Field(
        default="UTC", description="Time zone of `cron`.", examples=["Europe/Berlin"]
    )
    lasts: Duration = Field(alias="for", description="How long it lasts.", examples=["2h"])

    def to_window(self) -> MaintenanceWindow:
        """The window, whose ends its schedule knows."""
        matchers, schedule = (
            tuple(map(Matcher.parse, self.match)),
            Cron.parse(self.cron, self.timezone),
        )

        def ends_at(now: datetime) -> datetime | None:
            end = schedule.latest(now) + self.lasts
            return end if now < end else None

        return MaintenanceWindow(name=self.name, matchers=matchers, ends_at=ends_at)


def _own_url(given: dict[str, Any]) -> str:
    host, port = split_address(given.get("listen", DEFAULT_LISTEN))
    name = socket.gethostname() if host in {"", "0.0.0.0", "::"} else host  # noqa: S104 - compared, not bound
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


class Settings(Options):
    """The whole file."""

    _access: AccessOptions | None = PrivateAttr(default=None)
    database: DatabaseUrl = Field(
        default=SecretStr("sqlite:///rankwatch.db"),
        validate_default=True,
        description=(
            "SQLAlchemy URL, SQLite or PostgreSQL. A relative SQLite path starts at this "
            "file's directory."
        ),
        examples=[
            "sqlite:///rankwatch.db",
            "postgresql://rankwatch:${DB_PASSWORD}@db.internal/rankwatch",
        ],
    )
    answers_folder: ConfigPath | None = Field(
        default=None,
        description="Folder where answers of HTTP services wait until their run is stored: begun "
        "again after a restart, it asks for the rest (default: `rankwatch.db-answers` "
        "beside an SQLite `rankwatch.db`). Not used with `users: hmac`.",
    )
    max_series: int = Field(
        default=10_000,
        ge=0,
        le=1_000_000,
        description="Most series of segments on /metrics. Beyond it the smallest segments are "
        "left out and counted by `rankwatch_series_cut`; segment `all` and alerts "
        "that fire or are pending are always there.",
    )
    installation: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,62}$",
        description="Name of this rankwatch among those that notify the same receivers: label "
        "`installation` of its alerts and part of the keys of incidents (default: no "
        "label, and a random id kept in the database). What fires keeps its key.",
        examples=["shop-eu"],
    )
    lease: LeaseTime = Field(
        default=timedelta(seconds=15),
        description="Of several daemons on one PostgreSQL database one leads. How long after it "
        "stopped or froze a standby takes over, 5s to 5m.",
    )
    listen: Address = Field(
        default=DEFAULT_LISTEN, description="Host and port of /metrics, /-/healthy and /-/ready."
    )
    listen_without_authentication: bool = Field(
        default=False,
        description="Must be true for `listen` to go beyond this machine without passwords or "
        "client certificates in `web_config_file`: whoever reaches the port can then "
        "read everything there.",
    )
    web_config_file: ConfigPath | None = Field(
        default=None,
        description="File with TLS, client certificates and basic authentication for `listen`, in "
        "the form of Prometheus' exporter-toolkit. Certificates are reloaded when "
        "their files change, this file with the configuration.",
        examples=["web.yaml"],
    )
    external_url: PublicUrl = Field(
        default_factory=_own_url,
        description=(
            "How people reach this daemon, for links in alerts (default: from `listen`, "
            "https with TLS)."
        ),
    )
    conditions: ConditionsOptions = Field(
        default_factory=ConditionsOptions,
        description="What happens in every comparison while its runs cannot be judged.",
    )
    comparisons: tuple[ComparisonOptions, ...] = Field(
        min_length=1, max_length=1000, description="What is compared."
    )
    receivers: tuple[ReceiverOptions, ...] = Field(
        default=(),
        max_length=100,
        description="Who is notified when an alert fires, is acknowledged or resolves.",
    )
    pings: tuple[PingOptions, ...] = Field(
        default=(),
        max_length=100,
        description="Dead-man pings: sent for every run, so that silence is noticed.",
    )
    concurrent_runs: int = Field(
        default=8,
        ge=1,
        le=100,
        description="How many runs may be under way at once; the longest waiting one starts "
        "first. Not counted is what has used half its deadline already; a quarter "
        "more, at least one, are for comparisons whose last run used all of it.",
    )
    database_alert_after: Duration = Field(
        default=timedelta(minutes=2),
        description=(
            "How long the database may be away before every receiver is notified "
            "directly (alert `DatabaseAway`)."
        ),
    )
    routes: tuple[RouteOptions, ...] = Field(
        default=(),
        max_length=200,
        description="Which receivers get which alerts: the first route that matches decides. "
        "Alerts that match no route go to all receivers.",
    )
    fallbacks: Mapping[str, str] = Field(
        default_factory=dict,
        description=(
            "By receiver, the one that gets in its place what it rejects permanently, "
            "such as `{pagerduty: email}`."
        ),
        examples=[{"pagerduty": "email"}],
    )
    maintenance: tuple[MaintenanceOptions, ...] = Field(
        default=(),
        max_length=100,
        description=(
            "Times in which alerts are held back; those that still fire afterwards are sent then."
        ),
    )
    retention: RetentionOptions = Field(
        default_factory=RetentionOptions, description="How long results are kept."
    )
    privacy: PrivacyOptions = Field(
        default_factory=PrivacyOptions,
        description="What of users and items is stored and shown, of all comparisons.",
    )
    log: LogOptions = Field(default_factory=LogOptions, description="What is logged.")

    @field_validator("comparisons")
    @classmethod
    def _expand(
        cls, comparisons: tuple[ComparisonOptions, ...], info: ValidationInfo
    ) -> tuple[ComparisonOptions, ...]:
        # `conditions` stands before `comparisons`, and so is read by now.
        defaults = info.data.get("conditions", ConditionsOptions())
        judged = (
            each.model_copy(update={"conditions": each.conditions.over(defaults)})
            for each in comparisons
        )
        return tuple(each for entry in judged for each in entry.by_candidate())

    @property
    def access(self) -> AccessOptions | None:
        """The content of the web configuration file, None without one.

        It is read once, together with the settings.
        """
        return self._access

    def with_access(self, access: AccessOptions | None) -> Self:
        """A copy with that content.

        Links lead to https where it is served and no other URL is given.
        """
        is_encrypted = access is not None and access.tls_server_config.is_on
        links = {"external_url": self.external_url.replace("http://", "https://", 1)}
        found = self.model_copy(
            update=links if is_encrypted and "external_url" not in self.model_fields_set else {}
        )
        found._access = access  # noqa: SLF001 - a copy of these
        return found

    @property
    def host_names(self) -> frozenset[str]:
        """The daemon's own names, in lower case: those in `listen` and `external_url`."""
        of_pages = urlsplit(self.external_url or "").hostname
        names = (self.listen_address[0], of_pages)
        return frozenset(name.lower() for name in names if name)

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port to bind; the host is empty for all interfaces."""
        return split_address(self.listen)


def receivers_by_name(receivers: Sequence[ReceiverOptions]) -> dict[str, tuple[str, ...]]:
    """The receivers that each name stands for: every receiver's own, and of several peers also the one they share."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in receivers:
        peers = entry.receiver_names
        found |= {peer: (peer,) for peer in peers}
        if len(peers) > 1:
            found[peers[0].rpartition("-")[0]] = peers
    return found
