"""What can be set of an Alertmanager."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from monitor.options import ConfigPath, Duration, LabelName, Options
from monitor.receivers.fields import HeaderSecret, ReceiverName, Timeout, Url

PATH = "/api/v2/alerts"


def _check_peer(url: str) -> str:
    if urlsplit(url).query:
        msg = "must not hold a ?query: write http://host:9093, with the path prefix if there is one"
        raise ValueError(msg)
    if urlsplit(url).path.rstrip("/").endswith(PATH):
        msg = f"must not end in {PATH}: write http://host:9093, with the path prefix if there is one"
        raise ValueError(msg)
    return url


def _check_peers(urls: tuple[str, ...]) -> tuple[str, ...]:
    if not urls or len(set(urls)) < len(urls):
        msg = "list at least one peer, and none twice"
        raise ValueError(msg)
    return urls


_PeerUrl = Annotated[Url, AfterValidator(_check_peer)]


class BasicAuth(Options):
    """User and password for HTTP basic authentication."""

    username: str = Field(min_length=1, pattern=r"^[^:]*$", description="User name, without a colon.")
    password: SecretStr = Field(description="Password.")


class AlertmanagerOptions(Options):
    """Tell every peer of a Prometheus Alertmanager, each by itself."""

    urls: Annotated[tuple[_PeerUrl, ...], AfterValidator(_check_peers)] = Field(
        description="Every peer of the cluster, http://host:9093 each; never a load balancer.",
        json_schema_extra={"minItems": 1, "uniqueItems": True},
    )
    name: ReceiverName | None = Field(
        None, description="Name in metrics and in the outbox (default: alertmanager). Several urls get -0, -1, ... behind it."
    )
    basic_auth: BasicAuth | None = Field(None, description="Basic authentication.")
    bearer_token: HeaderSecret | None = Field(None, description="Token of an Authorization: Bearer header.")
    ca_file: ConfigPath | None = Field(None, description="PEM file of the authorities to trust instead of the usual ones.")
    timeout: Timeout = Field(timedelta(seconds=10), description="How long one request may take from first to last byte.")
    labels: Mapping[LabelName, str] = Field(
        default_factory=dict,
        description="Further labels of every alert told here: those that Prometheus gives its alerts of this rankwatch (`job`, "
        "`namespace`, `cluster`), so that alerts of both inhibit each other and those of other environments none.",
        examples=[{"job": "rankwatch"}],
    )
    resend_every: Duration = Field(
        timedelta(minutes=1),
        description="How often a firing alert is told again. With run-once, not serve: how often run-once is started.",
    )

    @model_validator(mode="after")
    def _one_credential(self) -> Self:
        if self.basic_auth is not None and self.bearer_token is not None:
            msg = "give either basic_auth or bearer_token, not both"
            raise ValueError(msg)
        return self

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """One name a peer, in the order of ``urls``."""
        base = self.name or "alertmanager"
        return (base,) if len(self.urls) == 1 else tuple(f"{base}-{number}" for number in range(len(self.urls)))
