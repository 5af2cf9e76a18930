"""Pushes series to a Pushgateway, group by group."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from monitor.errors import ConfigError
from monitor.export import group_path
from monitor.receivers.answers import accept
from monitor.receivers.fields import check_url
from monitor.receivers.guarded import Guard
from monitor.visible import visible

TIMEOUT_S = 10.0
"""How long one group may take from first to last byte."""
_SAID = 300
_CONTENT = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Where to push to, and as whom; ``instance`` tells groups apart that would else be one."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    instance: str = ""

    def put(self, page: bytes, comparison: str, *, now: datetime) -> None:
        """Put the page in place of all that is there of the comparison, or for "" of none in particular.

        DeliveryError when it is not taken.
        """
        url = self.url + group_path(instance=self.instance, comparison=comparison)
        ca_file = None if self.ca_file is None else str(self.ca_file)
        with closing(Guard(url, who="Pushgateway", timeout_s=TIMEOUT_S, ca_file=ca_file)) as guard:
            answer = guard.put(page, {**_CONTENT, **self.headers})
            said = visible((answer.body or b"").decode(errors="replace").strip()[:_SAID])
            accept(answer, who=guard.who, now=now, said=said)


def gateway_at(text: str, *, ca_file: Path | None = None, instance: str = "") -> Gateway:
    """The Pushgateway at ``http(s)://[user:password@]host[:port][/path]``; ConfigError, without a secret, for anything else."""
    parts = _split(text)
    if ca_file is not None and not ca_file.is_file():
        msg = f"--push-ca-file {ca_file}: there is no such file"
        raise ConfigError(msg)
    credentials, _, host = parts.netloc.rpartition("@")
    url = parts._replace(netloc=host, path=parts.path.rstrip("/")).geturl()
    return Gateway(url=url, headers=_basic(credentials), ca_file=ca_file, instance=instance)


def _split(text: str) -> SplitResult:
    told = "--push (or RANKWATCH_PUSH) "
    try:
        parts = urlsplit(text)
        check_url(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
    except ValueError as error:
        msg = f"{told}{error}"
        raise ConfigError(msg) from None
    if parts.query or "@" in parts.path:
        msg = f"{told}must end with its path: write special characters of user and password as %XX, / as %2F"
        raise ConfigError(msg)
    return parts


def _basic(credentials: str) -> dict[str, str]:
    if not credentials:
        return {}
    user, _, password = credentials.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
