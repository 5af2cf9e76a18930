"""The configuration file as typed, frozen options. `checks` checks several settings together."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr

from monitor.alerts.notification_policy import Matcher
from monitor.boundary.files import describe_readers, read_bounded
from monitor.boundary.options import ConfigPath, Duration, Options, readable_by
from monitor.model.retention import Cutoffs, DataKind
from monitor.receivers import ReceiverOptions
from monitor.receivers.pings import PingOptions
from monitor.settings.addresses import DEFAULT_LISTEN, split_address
from monitor.settings.comparison_options import ComparisonOptions, ConditionsOptions
from monitor.settings.schedule import Cron
from monitor.settings.value_types import (
    Address,
    CronText,
    DatabaseUrl,
    LeaseTime,
    ParsedBy,
    PublicUrl,
    ZoneName,
)
from monitor.web.access_options import AccessOptions

LEAST_BYTES = 32
_MOST_BYTES = 4096

MatcherText = Annotated[Matcher, ParsedBy(Matcher.parse, attrgetter("text"))]
"""A matcher: ``name=value``, ``name!=value``, ``name=~"regex"`` or ``name!~"regex"``."""
_MATCHERS_EXPLAINED = (
    "Matchers: `name=value`, `name!=value`, `name=~regex` (for the whole value) or "
    "`name!~regex`. An alert must match all matchers in this list. The name can be `alert`, "
    "`comparison`, `segment`, `severity`, `metric`, `statistic` or a label of the rule."
)


def read_key(path: str) -> bytes:
    """Return the key in the file. Raises ValueError if the file has no valid key."""
    try:
        key = read_bounded(path, _MOST_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if len(key) < LEAST_BYTES:
        raise ValueError(
            f"{path} has only {len(key)} bytes: write a key of at least {LEAST_BYTES} bytes, for "
            "example with openssl rand -hex 32"
        )
    return key


class PrivacyOptions(Options):
    """How users and items are stored and shown."""

    users: Literal["plain", "hmac"] = "plain"
    """With `hmac`, rankwatch stores and shows a keyed hash (HMAC-SHA-256) in place of each user's
    id. Requests to sources still contain the id, and you can still search for the id on web
    pages."""
    key_file: Annotated[ConfigPath, readable_by(read_key)] | None = Field(
        default=None,
        description=f"File with the key of `hmac`, {LEAST_BYTES} bytes or more. `openssl rand -hex "
        "32` writes such a key. A new key gives every user a new hash, so users no longer match "
        "earlier runs.",
        examples=["users.key"],
    )
    items: Literal["shown", "hidden"] = "shown"
    """With `hidden`, messages contain no items and no lists. Web pages still show items and
    lists."""

    def _problems(self) -> Iterator[str]:
        needs_key = self.users == "hmac"
        has_key = self.key_file is not None
        if needs_key != has_key:
            yield "give users: hmac and key_file together, or neither"

    @property
    def shows_items(self) -> bool:
        """Whether messages, and the texts of alerts, may contain items."""
        return self.items == "shown"

    @property
    def key_warning(self) -> str | None:
        """A warning if every account of this machine may read the key. Otherwise None."""
        path = self.key_file
        if path is None:
            return None
        return describe_readers(path, "can identify users", f"chmod go= {path}")


class RetentionOptions(Options):
    """How long rankwatch stores results. The state of an alert is stored until the alert ends."""

    stays_partial: ClassVar[bool] = True

    scores: Duration = timedelta(days=30)
    """How long the scores of each user are stored. In PostgreSQL, rankwatch deletes the scores of a
    whole day at a time."""
    lists: Duration | None = None
    """How long the lists of all compared users are stored (default: as long as `scores`). rankwatch
    deletes these lists earlier if neither the next run nor a relevance metric needs them."""
    evidence: Duration = timedelta(days=90)
    """How long the lists of example users and the explanations of runs are stored."""
    summaries: Duration | None = None
    """How long summaries, coverage and expectations are stored for every segment except `all`
    (default: as long as `runs`). The figures from which rules learn are stored as long as the run
    to which they belong."""
    runs: Duration = timedelta(days=400)
    """How long runs are stored. When rankwatch deletes a run, it also deletes all remaining data of
    the run."""
    daily: Duration = timedelta(days=5 * 365)
    """How long the daily summaries for each segment and metric are stored."""

    def cutoffs(self, now: datetime) -> Cutoffs:
        """The instants before which each kind of data is deleted."""
        # `lists` and `summaries` are None if the file does not set them.
        ages = {
            DataKind.SCORES: self.scores,
            DataKind.LISTS: self.lists or self.scores,
            DataKind.EVIDENCE: self.evidence,
            DataKind.SUMMARIES: self.summaries or self.runs,
            DataKind.RUNS: self.runs,
            DataKind.DAILY: self.daily,
        }
        return {kind: now - age for kind, age in ages.items()}


class LogOptions(Options):
    """What the daemon writes to standard error."""

    format: Literal["auto", "console", "json"] = "auto"
    """`auto` means `console` on a terminal, and `json` otherwise."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level of messages to log."""


class RouteOptions(Options):
    """Which receivers get which alerts."""

    match: tuple[MatcherText, ...] = Field(
        default=(),
        max_length=50,
        description=f"{_MATCHERS_EXPLAINED} Without matchers the route matches every alert.",
        examples=[["severity=critical"]],
    )
    receivers: tuple[str, ...] = Field(
        min_length=1, max_length=100, examples=[["pagerduty", "slack"]]
    )
    """The names of the receivers that get the alerts."""
    goes_on: bool = Field(default=False, alias="continue")
    """Whether the routes after this route can also match an alert."""

    def with_peers(self, peers: Mapping[str, tuple[str, ...]]) -> Self:
        """Return a copy of the route with the names in ``peers`` in place of each receiver's name.

        A peer is one of several servers of a receiver. ``peers`` is from `receivers_by_name`.
        """
        receivers: list[str] = []
        for name in self.receivers:
            receivers += peers[name]
        return self.model_copy(update={"receivers": tuple(receivers)})


class MaintenanceOptions(Options):
    """A period during which no notifications are sent, for example during a nightly training."""

    name: str = Field(min_length=1, max_length=100, examples=["retraining"])
    """Free text."""
    match: tuple[MatcherText, ...] = Field(
        default=(),
        max_length=50,
        description=f"{_MATCHERS_EXPLAINED} Without matchers the window matches every alert.",
        examples=[["comparison=home-feed"]],
    )
    cron: CronText = Field(examples=["0 2 * * *"])
    """When the window begins: minute, hour, day of month, month and weekday as in crontab(5)."""
    timezone: ZoneName = Field(default="UTC", examples=["Europe/Berlin"])
    """Time zone of `cron`."""
    lasts: Duration = Field(alias="for", examples=["2h"])
    """How long the window lasts."""

    def ends_at(self, now: datetime) -> datetime | None:
        """When the open window ends. None if the window is closed."""
        begin = Cron.parse(self.cron, self.timezone).latest(now)
        end = begin + self.lasts
        return end if now < end else None


def _default_url(settings: dict[str, Any]) -> str:
    """Return the URL at which other machines reach the address ``listen``."""
    host, port = split_address(settings.get("listen") or DEFAULT_LISTEN)
    if host in {"", "0.0.0.0", "::"}:  # all addresses  # noqa: S104 - compared, not bound
        host = socket.gethostname()
    if ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"


class Settings(Options):
    """The configuration file."""

    stays_partial: ClassVar[bool] = True
    _access: AccessOptions | None = PrivateAttr(default=None)
    database: DatabaseUrl = Field(
        default=SecretStr("sqlite:///rankwatch.db"),
        validate_default=True,
        examples=[
            "sqlite:///rankwatch.db",
            "postgresql://rankwatch:${DB_PASSWORD}@db.internal/rankwatch",
        ],
    )
    """SQLAlchemy URL of a SQLite or PostgreSQL database. A relative path to a SQLite file is
    relative to the directory of the configuration file. Percent-encode special characters of the
    password, such as `%40` for `@`."""
    answers_folder: ConfigPath | None = None
    """The folder in which rankwatch stores the responses of HTTP services during a run. If a run
    resumes after a restart, it requests only the responses that are not in this folder. rankwatch
    deletes the responses as soon as the run is stored. With SQLite, the default is a folder next to
    the database: for `rankwatch.db`, the folder is `rankwatch.db-answers`. With PostgreSQL there is
    no default, so no responses are stored unless you set this key. With `users: hmac`, responses
    are never stored."""
    max_series: int = Field(default=10_000, ge=0, le=1_000_000)
    """The maximum number of series for segments on /metrics. If there are more series for segments,
    rankwatch leaves out the series of the smallest segments. `rankwatch_series_cut` counts the
    series that were left out. rankwatch never leaves out the series of the segment `all`, or the
    series of firing and pending alerts."""
    installation: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,62}$", examples=["shop-eu"]
    )
    """Name of this installation. Set a name if several installations notify the same receivers.
    Alerts get the name as the label `installation`. The name also becomes part of the keys of
    incidents. If you do not set a name, alerts do not have the label `installation`, and the keys
    of incidents contain a random id from the database. If the name changes, firing alerts keep
    their keys."""
    lease: LeaseTime = timedelta(seconds=15)
    """If several daemons share a PostgreSQL database, one of them is the leader. A standby takes
    over if the leader has not responded for this long. The minimum is 5s, and the maximum is 5m."""
    listen: Address = DEFAULT_LISTEN
    """The host and port on which the daemon serves web pages, /metrics, /-/healthy and /-/ready."""
    listen_without_authentication: bool = False
    """Set this key to `true` to let other machines connect to `listen` without a password or a
    client certificate (`web_config_file`). Anyone who can connect to the port can then read all
    pages."""
    web_config_file: ConfigPath | None = Field(default=None, examples=["web.yaml"])
    """File with TLS, client certificates and basic authentication for `listen`, in the format of
    Prometheus' exporter-toolkit. Certificates are reloaded when their files change. After you
    change `web.yaml`, reload the configuration."""
    external_url: PublicUrl = Field(default_factory=_default_url)
    """URL of this daemon for links in alerts (default: made from `listen`, with https if TLS is
    on)."""
    runbook_base_url: PublicUrl | None = Field(
        default=None, examples=["https://wiki.example.com/rankwatch/runbooks"]
    )
    """URL of the folder of runbooks. The name of the alert's runbook is appended, such as
    `/SimilarityDrop`. By default the URL is `/docs/runbooks` at `external_url`, where the daemon
    serves the runbooks. If a rule has its own `runbook_url`, rankwatch uses that URL instead."""
    conditions: ConditionsOptions = Field(default_factory=ConditionsOptions)
    """What rankwatch does while runs cannot be judged. These settings apply to all comparisons."""
    entries: tuple[ComparisonOptions, ...] = Field(
        alias="comparisons", min_length=1, max_length=1000
    )
    """The comparisons to run."""
    receivers: tuple[ReceiverOptions, ...] = Field(default=(), max_length=100)
    """The receivers that are notified when an alert fires, is acknowledged or resolves."""
    pings: tuple[PingOptions, ...] = Field(default=(), max_length=100)
    """Dead man's switches: monitoring services that expect a ping from every run, and that send an
    alert if the pings stop."""
    concurrent_runs: int = Field(default=8, ge=1, le=100)
    """The maximum number of runs at the same time. The run that has been waiting the longest starts
    first. A run that has used half of its deadline no longer counts towards this maximum. A
    comparison is slow if its last run used its full deadline. For slow comparisons, a separate
    maximum applies: a quarter of `concurrent_runs`, but at least one run."""
    database_alert_after: Duration = timedelta(minutes=2)
    """If the database has been unreachable for this long, rankwatch sends the alert `DatabaseAway`
    to every receiver."""
    routes: tuple[RouteOptions, ...] = Field(default=(), max_length=200)
    """Which receivers get which alerts. The first route that matches an alert decides where the
    alert goes. An alert that matches no route goes to all receivers."""
    fallbacks: Mapping[str, str] = Field(default_factory=dict, examples=[{"pagerduty": "email"}])
    """A second receiver for messages that the first receiver rejects permanently. With `{pagerduty:
    email}`, `email` gets the messages that `pagerduty` rejects."""
    maintenance: tuple[MaintenanceOptions, ...] = Field(default=(), max_length=100)
    """Maintenance windows, during which rankwatch sends no notifications. At the end of a window,
    receivers are notified of the alerts that are still firing."""
    retention: RetentionOptions = Field(default_factory=RetentionOptions)
    """How long rankwatch stores results."""
    privacy: PrivacyOptions = Field(default_factory=PrivacyOptions)
    """How users and items of all comparisons are stored and shown."""
    log: LogOptions = Field(default_factory=LogOptions)
    """What is logged."""

    @cached_property
    def comparisons(self) -> tuple[ComparisonOptions, ...]:
        """One comparison for each candidate, completed by the top-level `conditions`."""
        expanded: list[ComparisonOptions] = []
        for comparison in self.entries:
            conditions = comparison.conditions.with_defaults(self.conditions)
            expanded += comparison.model_copy(update={"conditions": conditions}).by_candidate()
        return tuple(expanded)

    @cached_property
    def comparisons_by_name(self) -> dict[str, ComparisonOptions]:
        """The comparisons by their names."""
        return {comparison.name: comparison for comparison in self.comparisons}

    @property
    def receiver_names(self) -> list[str]:
        """The names of all receivers, with the name of each peer."""
        names: list[str] = []
        for entry in self.receivers:
            names += entry.receiver_names
        return names

    @property
    def access(self) -> AccessOptions | None:
        """The content of the web configuration file, or None without such a file."""
        return self._access

    def with_access(self, access: AccessOptions | None) -> Self:
        """Return a copy with these options of the web configuration file.

        If they switch TLS on, the default of ``external_url`` begins with https.
        """
        copy = self.model_copy()
        is_encrypted = access is not None and access.tls_server_config.is_on
        if is_encrypted and "external_url" not in self.model_fields_set:
            url = self.external_url.replace("http://", "https://", 1)
            copy = self.model_copy(update={"external_url": url})
        copy._access = access  # noqa: SLF001 - a copy of these settings
        return copy

    @property
    def has_public_runbooks(self) -> bool:
        """Whether the file sets the address of runbooks. By default it is this machine's name."""
        return bool(self.model_fields_set & {"external_url", "runbook_base_url"})

    def runbook_url(self, name: str) -> str:
        """The URL of the runbook with this name."""
        base = self.runbook_base_url or f"{self.external_url.rstrip('/')}/docs/runbooks"
        return f"{base.rstrip('/')}/{name}"

    @property
    def host_names(self) -> frozenset[str]:
        """The host names of the daemon in `listen` and `external_url`, in lower case."""
        listen_host, _ = self.listen_address
        page_host = urlsplit(self.external_url or "").hostname
        return frozenset(name.lower() for name in (listen_host, page_host) if name)

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port to bind. The host is empty for all interfaces."""
        return split_address(self.listen)


def receivers_by_name(receivers: Sequence[ReceiverOptions]) -> dict[str, tuple[str, ...]]:
    """Map each name to the receivers that it means.

    A receiver with several servers has one name for each server (peer): ``NAME-0``, ``NAME-1``.
    Then ``NAME`` means all peers.
    """
    by_name: dict[str, tuple[str, ...]] = {}
    for entry in receivers:
        peers = entry.receiver_names
        by_name |= {peer: (peer,) for peer in peers}
        if len(peers) > 1:
            common_name, _, _ = peers[0].rpartition("-")
            by_name[common_name] = peers
    return by_name
