"""Metrics of a command that ends: written to a textfile, pushed to a Pushgateway, or both."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit

from monitor.errors import ConfigError, MonitorError
from monitor.export import families_of_comparison, group_path, require_textfile, write_families, write_textfile
from monitor.receivers.fields import check_url
from monitor.receivers.http_client import HttpClient, require_accepted
from monitor.redaction import escape_controls
from monitor.service.commands.one_shot import OneShot

TIMEOUT_S = 10.0
"""How long one group may take from first to last byte."""
_REPLY_SHOWN = 300
_CONTENT = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A Pushgateway and the credentials for it; ``instance`` separates groups that would else be one.

    ``secrets``: what is masked where the gateway's answer repeats it.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    instance: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def put(self, page: bytes, comparison: str, *, now: datetime) -> None:
        """Replace the group of a comparison, or for "" of none, by the page; DeliveryError when it is rejected."""
        url = self.url + group_path(instance=self.instance, comparison=comparison)
        ca_file = None if self.ca_file is None else str(self.ca_file)
        client = HttpClient(url, who="Pushgateway", timeout_s=TIMEOUT_S, ca_file=ca_file)
        answer = client.post(page, {**_CONTENT, **self.headers}, method="PUT")
        require_accepted(answer, who=client.who, now=now, reason=self._fit((answer.body or b"").decode(errors="replace")))

    def _fit(self, text: str) -> str:
        # Masked before it is cut, or half of a secret would be shown.
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return escape_controls(text.strip()[:_REPLY_SHOWN])


def gateway_at(text: str, *, ca_file: Path | None = None, instance: str = "") -> Gateway:
    """The Pushgateway at ``http(s)://[user:password@]host[:port][/path]``; ConfigError, without a secret, for anything else."""
    parts = _split_url(text)
    if ca_file is not None and not ca_file.is_file():
        msg = f"--push-ca-file {ca_file}: there is no such file"
        raise ConfigError(msg)
    credentials, _, host = parts.netloc.rpartition("@")
    url = parts._replace(netloc=host, path=parts.path.rstrip("/")).geturl()
    headers = _basic(credentials)
    return Gateway(url=url, headers=headers, ca_file=ca_file, instance=instance, secrets=_secrets(credentials, headers))


def _split_url(text: str) -> SplitResult:
    option = "--push (or RANKWATCH_PUSH) "
    try:
        parts = urlsplit(text)
        check_url(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
        (parts.hostname or "").encode("idna")  # no part of the name is empty or too long
    except ValueError:
        msg = f"{option}must be a URL such as http://pushgateway.internal:9091"
        raise ConfigError(msg) from None
    if parts.query or "@" in parts.path:
        msg = f"{option}must end with its path: write special characters of user and password as %XX, / as %2F"
        raise ConfigError(msg)
    return parts


def _basic(credentials: str) -> dict[str, str]:
    if not credentials:
        return {}
    user, _, password = credentials.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _secrets(credentials: str, headers: Mapping[str, str]) -> tuple[str, ...]:
    """The header's value, and the password in the forms in which a page may repeat it; the longest first."""
    given = credentials.partition(":")[2]
    password = unquote(given)
    basic = (each.removeprefix("Basic ") for each in headers.values())
    forms = {*basic, given, password, quote(password, safe=""), escape(password), json.dumps(password)[1:-1]}
    return tuple(sorted(filter(None, forms), key=len, reverse=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOutput:
    """Where a command writes the metrics before it ends."""

    textfile: Path | None = None
    gateway: Gateway | None = None

    def write(self, service: OneShot, comparison: str | None) -> Iterator[MonitorError | OSError]:
        """Write the stored state of the selected comparison, or of all; what went wrong."""
        for output in (self._write_textfile, self._push):
            try:
                output(service, comparison)
            except (MonitorError, OSError) as error:
                yield error

    def _write_textfile(self, service: OneShot, comparison: str | None) -> None:
        if self.textfile is not None:
            service.publish(comparison)
            families = service.publisher.final()
            # Of one comparison its own series alone: another file may hold the others.
            write_textfile(
                self.textfile, write_families(families if comparison is None else families_of_comparison(families, comparison))
            )

    def _push(self, service: OneShot, comparison: str | None) -> None:
        if self.gateway is not None:
            names, now = service.publish(comparison), service.clock.now()
            families = service.publisher.final()
            # A group for each comparison, and one for what belongs to none.
            for name in (*names, None):
                self.gateway.put(write_families(families_of_comparison(families, name)), name or "", now=now)


def metrics_output_of(
    textfile: Path | None, push: str | None, *, ca_file: Path | None = None, instance: str = ""
) -> MetricsOutput:
    """The outputs that a command was given; ConfigError for one that cannot be used."""
    return MetricsOutput(
        textfile=None if textfile is None else require_textfile(textfile),
        gateway=None if push is None else gateway_at(push, ca_file=ca_file, instance=instance),
    )
