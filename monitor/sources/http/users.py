"""Users from one answer over HTTP: an array of their keys, or of objects that hold segments, too."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from monitor.deadline import Deadline
from monitor.errors import SourceError, UnreadableError
from monitor.slot_templates import fill_slot
from monitor.sources.columns import require_columns
from monitor.sources.expressions import finder, shape_of
from monitor.sources.http.connection_pool import MAY_BE_LINK_LOCAL, run_pull, trust
from monitor.sources.http.request import read_body
from monitor.sources.http.source import connection_failure, request_options, status_failure
from monitor.sources.list_collector import from_json
from monitor.sources.table_lists import TableBatch
from monitor.sources.tables import Table


class HttpUsers(Table):
    """Users that one GET answers with. Port: UserSource."""

    def where(self, slot: datetime) -> str:
        """Who is asked, whatever the slot."""
        del slot
        return self._options.host

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """All of them at once.

        SourceError where there is no such answer, or nobody has such a field.
        """
        options = self._options
        tls = trust(options.ca_file, options.cert_file, options.key_file)
        made = request_options(options, tls, Deadline.after(options.timeout.total_seconds()))
        users = run_pull(
            partial(
                self._ask,
                fill_slot(options.url.get_secret_value(), slot, partial(quote, safe="")),
                made,
            )
        )
        rows = [each if isinstance(each, dict) else {options.user: each} for each in users]
        if rows:
            require_columns(
                columns,
                list(dict.fromkeys(chain.from_iterable(rows))),
                f"the answer of {options.host}",
            )
        yield {name: [row.get(name) for row in rows] for name in columns}

    async def _ask(
        self, url: str, made: dict[str, Any], session: aiohttp.ClientSession
    ) -> list[object]:
        options = self._options
        MAY_BE_LINK_LOCAL.set(options.allow_link_local)
        try:
            async with session.get(URL(url, encoded=True), **made) as response:
                failure, content = (
                    status_failure(response),
                    await read_body(response, options.max_bytes),
                )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, zlib.error) as error:
            failure, content = connection_failure(error, options), None
        if failure is not None or content is None:
            note = (
                failure.note
                if failure
                else f"answered with more than max_bytes, {options.max_bytes}"
            )
            raise SourceError(f"{options.host} {note}", permanent=False)
        with suppress(ValueError):
            answer = from_json(content)
            if isinstance(found := finder(options.users)(answer), list):
                return found
            what = f"{options.host} has no array where users says ({options.users})"
            raise UnreadableError(what, f"{what}, in {shape_of(answer)}")
        raise SourceError(
            f"{options.host} answered no JSON to which users ({options.users}) can be applied"
        )
