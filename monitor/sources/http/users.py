"""Reads users from one HTTP answer: an array of keys, or of objects with segments."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from monitor.boundary.deadline import Deadline
from monitor.boundary.slot_templates import fill_slot
from monitor.measures.reading.lists import parse_cell, parse_json
from monitor.model.errors import SourceError, UnreadableError
from monitor.sources.columns import require_columns
from monitor.sources.expressions import make_finder, shape_of
from monitor.sources.http.connection_pool import run_pull
from monitor.sources.http.fetch import fetch, request_options
from monitor.sources.http.request import RequestFailure
from monitor.sources.table_lists import TableBatch
from monitor.sources.tables import Table


class HttpUsers(Table):
    """The users in the response to a single GET request. Port: UserSource."""

    def where(self, slot: datetime) -> str:
        """The host. It is the same for all slots."""
        del slot
        host: str = self._options.host
        return host

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """All users in one batch.

        Raises SourceError if the answer has no users, or if no user has a value for a column.
        """
        options = self._options
        request = request_options(options, Deadline.after(options.timeout.total_seconds()))
        quote_all = partial(quote, safe="")
        url = fill_slot(options.url.get_secret_value(), slot, quote_all)
        users = run_pull(partial(self._get, url, request))
        rows = [user if isinstance(user, dict) else {options.user: user} for user in users]
        if rows:
            names = list(dict.fromkeys(chain.from_iterable(rows)))
            require_columns(columns, names, f"the answer of {options.host}")
        yield {name: [row.get(name) for row in rows] for name in columns}

    async def _get(
        self,
        url: str,
        request: dict[str, Any],
        session: aiohttp.ClientSession,
    ) -> list[object]:
        options = self._options
        fetched = await fetch(session, URL(url, encoded=True), options, request)
        if isinstance(fetched, RequestFailure):
            raise SourceError(f"{options.host} {fetched.note}", permanent=False)
        content, _ = fetched
        try:
            answer = parse_cell(parse_json(content))
            users = make_finder(options.users)(answer)
        except ValueError:
            note = f"answered no JSON to which users ({options.users}) can be applied"
            raise SourceError(f"{options.host} {note}") from None
        if not isinstance(users, list):
            what = f"{options.host} has no array at the path that `users` gives ({options.users})"
            raise UnreadableError(what, f"{what}, in {shape_of(answer)}")
        return users
