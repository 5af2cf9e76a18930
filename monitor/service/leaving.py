"""What a process that ends leaves behind for Prometheus: a textfile, a push, or both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from monitor.errors import MonitorError
from monitor.export import of_comparison, require_textfile, write, write_textfile
from monitor.service.pushing import Gateway, gateway_at
from monitor.service.replaying import OneShot


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where it is left."""

    textfile: Path | None = None
    gateway: Gateway | None = None

    def leave(self, service: OneShot, comparison: str | None) -> Iterator[MonitorError | OSError]:
        """Tell how things stand with the chosen comparisons, or with all, as the database has it; what went wrong."""
        if self.textfile is None and self.gateway is None:
            return
        for tell in (self._write, self._push):
            try:
                tell(service, comparison)
            except (MonitorError, OSError) as error:
                yield error

    def _write(self, service: OneShot, comparison: str | None) -> None:
        """Of one comparison nothing but its own series: another file may hold the others."""
        if self.textfile is not None:
            service.publish(comparison)
            families = service.publisher.standing()
            write_textfile(self.textfile, write(families if comparison is None else of_comparison(families, comparison)))

    def _push(self, service: OneShot, comparison: str | None) -> None:
        if self.gateway is not None:
            names, now = service.publish(comparison), service.clock.now()
            families = service.publisher.standing()
            for name in (*names, None):
                self.gateway.put(write(of_comparison(families, name)), name or "", now=now)


def places_of(textfile: Path | None, push: str | None, *, ca_file: Path | None = None, instance: str = "") -> Places:
    """The places that a command was given; ConfigError for one that cannot be."""
    return Places(
        textfile=None if textfile is None else require_textfile(textfile),
        gateway=None if push is None else gateway_at(push, ca_file=ca_file, instance=instance),
    )
