"""Metrics of a command that ends: written to a textfile, pushed to a Pushgateway, or both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

from prometheus_client import push_to_gateway
from prometheus_client.exposition import basic_auth_handler
from prometheus_client.metrics_core import Metric

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import ConfigError, DeliveryError, MonitorError
from monitor.export import counted_families, families_of_comparison, write_families, write_textfile
from monitor.export.exposition import FamilyCollector
from monitor.receivers.fields import check_url
from monitor.service.commands.one_shot import OneShot

TIMEOUT_S = 10.0
"""How long one group may take from first to last byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A Pushgateway and the credentials for it; ``instance`` separates groups that would else be one."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    instance: str = ""

    def put(self, families: Iterable[Metric], comparison: str) -> None:
        """Replace the group of a comparison, or for "" of none, by these families; DeliveryError when it is rejected."""
        labels = {"instance": self.instance, "comparison": comparison}
        push = partial(
            push_to_gateway,
            self.url,
            job="rankwatch",
            registry=FamilyCollector(counted_families(families)),
            grouping_key={name: value for name, value in labels.items() if value},
            timeout=TIMEOUT_S,
        )
        if self.user:
            push = partial(push, handler=partial(basic_auth_handler, username=self.user, password=self.password))
        try:
            # The library's time-out is that of one read, and an answer may trickle.
            BackgroundCall(push, name="push").wait(Deadline.after(TIMEOUT_S))
        except OverdueError:
            msg = f"Pushgateway at {self.url} did not answer within {TIMEOUT_S:g} s"
            raise DeliveryError(msg, permanent=False) from None
        except (OSError, HTTPException, ValueError) as error:
            # The text of what it answered is left out: it may repeat what it was sent, the password among it.
            msg = f"Pushgateway at {self.url} took no metrics: {error}"
            raise DeliveryError(msg, permanent=False) from None


def gateway_at(text: str, *, instance: str = "") -> Gateway:
    """The Pushgateway at ``http(s)://[user:password@]host[:port][/path]``; ConfigError, without a secret, for anything else."""
    option = "--push (or RANKWATCH_PUSH) "
    try:
        parts = urlsplit(text)
        credentials, _, host = parts.netloc.rpartition("@")
        url = parts._replace(netloc=host, path=parts.path.rstrip("/")).geturl()
        check_url(url)
        (parts.hostname or "").encode("idna")  # no part of the name is empty or too long
    except ValueError:
        msg = f"{option}must be a URL such as http://pushgateway.internal:9091"
        raise ConfigError(msg) from None
    if parts.query or "@" in parts.path:
        msg = f"{option}must end with its path: write special characters of user and password as %XX, / as %2F"
        raise ConfigError(msg)
    user, _, password = credentials.partition(":")
    return Gateway(url=url, user=unquote(user), password=unquote(password), instance=instance)


def write_metrics(
    service: OneShot, comparison: str | None, *, textfile: Path | None, gateway: Gateway | None
) -> Iterator[MonitorError | OSError]:
    """Write the stored state of the selected comparison, or of all, to the file and the gateway; what went wrong."""
    try:
        if textfile is not None:
            service.publish(comparison)
            families = service.publisher.final()
            # Of one comparison its own series alone: another file may hold the others.
            write_textfile(
                textfile, write_families(families if comparison is None else families_of_comparison(families, comparison))
            )
    except (MonitorError, OSError) as error:
        yield error
    try:
        if gateway is not None:
            names, families = service.publish(comparison), service.publisher.final()
            # A group for each comparison, and one for what belongs to none.
            for name in (*names, None):
                gateway.put(families_of_comparison(families, name), name or "")
    except MonitorError as error:
        yield error
