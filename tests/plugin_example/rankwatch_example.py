"""A source of lists that lie in a folder, a metric of the first item, and a receiver that writes into a file."""

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from pydantic import Field

from monitor import plugin_v1 as port


class ShelfOptions(port.Options):
    """Where the lists lie."""

    folder: port.ConfigPath = Field(
        description="Folder with a file for each user, a JSON array of item ids, best first."
    )


class Shelf:
    """Lists in a folder."""

    def __init__(self, options: ShelfOptions) -> None:
        self._folder = Path(options.folder)

    def collect(self, request: port.PullRequest, lists: port.ListCollector) -> None:
        if not self._folder.is_dir():
            raise port.SourceError(
                f"{self._folder} is no folder: has the job run that writes the lists?",
                permanent=False,
            )
        ends_at = time.monotonic() + request.timeout_s
        for user in request.users:
            file = self._folder / f"{quote(user, safe='')}.json"
            if time.monotonic() > ends_at:
                lists.fail(
                    user,
                    port.CoverageReason.TIMEOUT,
                    "was not looked for: the run's deadline had passed",
                )
            elif file.exists():
                lists.add(user, json.loads(file.read_text()))


SHELF = port.SourceKind(
    lists=port.Reader(ShelfOptions, "rankwatch_example:Shelf", "Lists in a folder, a file a user.")
)


class SameTop(port.Similarity):
    """Whether both lists begin with the same item."""

    name = "same_top"
    uneven = "exact: nothing but the first items counts"
    source = "the example of a plugin"

    def measure(self, alignment: port.Alignment) -> Any:
        is_same = (alignment.short > 0) & (alignment.positions[0] == 0)
        return np.where(alignment.long > 0, is_same, np.nan)


class LogbookOptions(port.ReceiverEntry):
    """Write messages into a file."""

    path: port.ConfigPath = Field(
        description="The file, which is made where it is not there; its folder must be."
    )


class Logbook:
    """Writes messages into a file."""

    treatment = port.Treatment()

    def __init__(self, options: LogbookOptions, name: str, *, external_url: str) -> None:
        self.name, self._path, self._external_url = name, Path(options.path), external_url

    def send(self, message: port.Message, *, now: datetime) -> None:
        text = port.plain_text(port.content_of(message, self._external_url))
        try:
            with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{now:%Y-%m-%d %H:%M} {text}\n")
        except OSError as error:
            raise port.DeliveryError(
                f"{self.name} cannot write: {error.strerror}", permanent=False
            ) from None


LOGBOOK = (LogbookOptions, Logbook)
