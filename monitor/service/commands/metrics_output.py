"""Writes metrics to a file for node_exporter, and to a Pushgateway."""

from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import timedelta
from functools import partial
from http.client import HTTPException
from itertools import chain
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit

from prometheus_client import push_to_gateway
from prometheus_client.exposition import basic_auth_handler
from prometheus_client.metrics_core import Metric

from monitor.boundary.deadline import OverdueError, call_in_time
from monitor.boundary.foreign_errors import log_error, system_cause
from monitor.boundary.options import web_url_of
from monitor.export.exposition import (
    FamilyCollector,
    families_of_comparison,
    with_counts,
    write_families,
    write_textfile,
)
from monitor.model.errors import ConfigError, DeliveryError, MonitorError
from monitor.model.immutable import immutable
from monitor.service.commands.one_shot import OneShot

TIMEOUT_S = 10.0
"""The time limit for sending one group of metrics, including the answer."""


@immutable
class Gateway:
    """A Pushgateway and its credentials.

    If several programs push the same comparison, ``instance`` keeps their metrics apart.
    """

    url: str
    user: str
    password: str = field(default="", repr=False)
    instance: str

    def put(self, families: Iterable[Metric], comparison: str) -> None:
        """Replace the metrics of one comparison. "" means the metrics that have no comparison.

        Raises DeliveryError if the gateway rejects the metrics.
        """
        labels = {"instance": self.instance, "comparison": comparison}
        counted = [with_counts(family) for family in families]
        push = partial(
            push_to_gateway,
            self.url,
            job="rankwatch",
            registry=FamilyCollector(counted),
            grouping_key={name: value for name, value in labels.items() if value},
            timeout=TIMEOUT_S,
        )
        if self.user:
            handler = partial(basic_auth_handler, username=self.user, password=self.password)
            push = partial(push, handler=handler)
        try:
            # The library's timeout is for one read, but an answer can arrive byte by byte.
            call_in_time(push, timedelta(seconds=TIMEOUT_S), name="push")
        except OverdueError:
            raise DeliveryError(
                f"Pushgateway at {self.url} did not answer within {TIMEOUT_S:g} s: check that it runs",
                permanent=False,
            ) from None
        except (OSError, HTTPException, ValueError) as error:
            log_error(error)
            if isinstance(error, HTTPError):
                error.close()  # this closes the connection
                reason = f"it answered with status {error.code}"
            else:
                reason = str(system_cause(error) or "it did not answer in HTTP")
            raise DeliveryError(
                f"Pushgateway at {self.url} did not accept the metrics: {reason}", permanent=False
            ) from None


def gateway_at(address: str, *, instance: str = "") -> Gateway:
    """Parse ``http(s)://[user:password@]host[:port][/path]``.

    Raises ConfigError for any other text. Its message omits the password.
    """
    option = "--push (or RANKWATCH_PUSH) "
    try:
        parts = urlsplit(address)
        credentials, _, host = parts.netloc.rpartition("@")
        url = parts._replace(netloc=host, path=parts.path.rstrip("/")).geturl()
        (parts.hostname or "").encode("idna")  # raises ValueError if this cannot be a host name
        is_url = web_url_of(url) is not None and not parts.fragment
    except ValueError:
        is_url = False
    if not is_url:
        raise ConfigError(f"{option}must be a URL such as http://pushgateway.internal:9091")
    if parts.query or "@" in parts.path:
        raise ConfigError(
            f"{option}must end with the path: write special characters of user and password as "
            "%XX, / as %2F"
        )
    user, _, password = credentials.partition(":")
    return Gateway(url=url, user=unquote(user), password=unquote(password), instance=instance)


def write_metrics(
    service: OneShot,
    comparison: str | None,
    *,
    textfile: Path | None,
    gateway: Gateway | None,
) -> Iterator[MonitorError | OSError]:
    """Write the stored state of one or all comparisons to the file and the gateway.

    Yields each error, and continues after it.
    """
    if textfile is None and gateway is None:
        return
    try:
        names = service.publish(comparison)
    except MonitorError as error:
        yield error
        return
    families = service.publisher.final()
    if textfile is not None:
        written = families
        if comparison is not None:
            # Other comparisons may have their own file, so omit their series here.
            of_each = [families_of_comparison(families, name) for name in names]
            written = tuple(chain.from_iterable(of_each))
        try:
            write_textfile(textfile, write_families(written))
        except (MonitorError, OSError) as error:
            yield error
    if gateway is not None:
        try:
            # There is one group for each comparison, and one for the series without a comparison.
            for name in (*names, None):
                gateway.put(families_of_comparison(families, name), name or "")
        except MonitorError as error:
            yield error
