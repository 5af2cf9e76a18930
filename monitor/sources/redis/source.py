"""Reads lists and users from Redis or Valkey before one deadline."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from monitor.boundary.deadline import (
    BackgroundCall,
    Deadline,
    OverdueError,
    interrupt_when_given_up,
)
from monitor.boundary.foreign_errors import redis_cause
from monitor.boundary.slot_templates import fill_slot
from monitor.measures.reading.lists import parse_cell, parse_json
from monitor.measures.reading.unreadable_values import Tally
from monitor.model.errors import ConfigError, SourceError
from monitor.model.rankings import CoverageReason, Pull, UserTable
from monitor.model.runs import PullRequest
from monitor.model.unreadable import ColumnKind, require_readable
from monitor.sources.columns import require_columns
from monitor.sources.expressions import make_finder, shape_of
from monitor.sources.list_collector import ListCollector, spell_items
from monitor.sources.lookup_tables import build_user_table
from monitor.sources.redis import RedisSourceOptions, RedisUsersOptions
from monitor.texts.wording import write_extra

try:
    import redis
    from redis.backoff import ExponentialWithJitterBackoff
    from redis.cluster import ClusterNode, RedisCluster
    from redis.connection import parse_url
    from redis.exceptions import MovedError, RedisClusterException
    from redis.retry import Retry
    from redis.sentinel import Sentinel
except ImportError:
    raise ConfigError(
        f"redis: the extra for Redis is not installed: {write_extra('redis')}"
    ) from None

_ROWS = 1000
_RETRIES = 2
_ERRORS = (redis.RedisError, RedisClusterException, OSError, OverdueError, ValueError)
_ADDRESS_OF_SEVERAL = re.compile(
    r"(rediss?)\+(sentinel|cluster)(://(?:.*@)?)([^/?]+)/?([^/?]*)(.*)"
)


class RedisServer:
    """A server, a cluster, or the master that sentinels name."""

    def __init__(self, options: RedisSourceOptions | RedisUsersOptions) -> None:
        self._url = options.url.get_secret_value()
        self._timeout_s = options.timeout.total_seconds()
        self.where = "Redis " + re.sub(r"^.*?://(.*@)?|[?].*$", "", self._url)

    def open(self) -> Any:  # noqa: ANN401 - redis-py's clients have no common class
        """Open a client. It connects at its first command. The client of a cluster connects now."""
        retry = Retry(ExponentialWithJitterBackoff(base=0.1, cap=5), _RETRIES)
        common = {
            "protocol": 2,
            "decode_responses": True,
            "encoding_errors": "surrogateescape",
            "retry": retry,
            "socket_timeout": self._timeout_s,
            "socket_connect_timeout": self._timeout_s,
        }
        match = _ADDRESS_OF_SEVERAL.fullmatch(self._url)
        if match is None:
            return redis.Redis.from_url(self._url, **common)
        scheme, form, login, hosts, service, rest = match.groups()
        default_port = 26379 if form == "sentinel" else 6379
        nodes = []
        for host in hosts.split(","):
            options = parse_url(f"{scheme}{login}{host}{rest}")
            nodes.append((options.pop("host"), options.pop("port", default_port)))
        # The other options in the URL are the same for all hosts.
        options |= common
        options["ssl"] = options.pop("connection_class", None) is not None
        password = options.pop("sentinel_password", None)
        if form == "cluster":
            return RedisCluster(startup_nodes=[ClusterNode(*node) for node in nodes], **options)
        of_sentinels = options | {"password": password, "username": None, "db": 0}
        return Sentinel(nodes, sentinel_kwargs=of_sentinels, **options).master_for(service)

    def describe(self, error: Exception) -> str:
        """Say what happened and what to do.

        The error's own text is not used, because it may contain data.
        """
        if isinstance(error, OverdueError):
            return "no answer when the deadline passed"
        if isinstance(error, MovedError):
            return "is a node of a cluster: begin url with redis+cluster://"
        return str(redis_cause(error))


class RedisSource:
    """One arm's lists in Redis. Port: Source.

    If a batch gets no answer, even after retries, the remaining users are not requested.
    """

    def __init__(self, options: RedisSourceOptions) -> None:
        self._options = options
        self._server = RedisServer(options)
        self._items = make_finder(options.items)
        self._scores = make_finder(options.scores) if isinstance(options.scores, str) else None

    def pull(self, request: PullRequest) -> Pull:
        """Return the lists of the requested users."""
        users = request.users.tolist()
        options = self._options
        lists = ListCollector(
            request.k,
            has_scores=options.scores is not None,
            no_item=options.no_item,
        )
        answered = 0
        try:
            for reply in self._replies(request, users):
                self._add(lists, users[answered], reply)
                answered += 1
        except _ERRORS as error:
            for user in users[answered:]:
                lists.fail(user, _reason(error), self._server.describe(error))
        pull = spell_items(lists.pull(), options.item_ids)
        tally = Tally(self._server.where)
        unreadable, example = lists.unreadable
        if unreadable:
            tally.count(options.key, ColumnKind.LISTS, unreadable, len(users), example)
            require_readable(tally.unreadable, options.max_unreadable)
        notes = {reason: f"{self._server.where}: {note}" for reason, note in pull.notes.items()}
        return replace(pull, notes=notes, unreadable=tally.unreadable)

    def _replies(self, request: PullRequest, users: Sequence[str]) -> Iterator[object]:
        """The replies, in the order of the users. An error of one user's command is a reply too."""
        # A thread asks, because a thread can be abandoned at the deadline if DNS or an answer
        # hangs.
        deadline = Deadline.after(request.timeout_s)
        size = self._options.batch

        def fill(template: str) -> str:
            return fill_slot(template, request.slot).replace("{k}", str(request.k))

        key = fill(self._options.key)
        field = fill(self._options.field or "")
        last = -1 if self._options.no_item else request.k - 1
        with closing(BackgroundCall(self._server.open, name="redis").wait(deadline)) as client:
            for start in range(0, len(users), size):
                pipeline = client.pipeline(transaction=False)
                for user in users[start : start + size]:
                    self._request(
                        pipeline,
                        last,
                        key.replace("{user}", user),
                        field.replace("{user}", user),
                    )
                execute = partial(pipeline.execute, raise_on_error=False)
                yield from BackgroundCall(execute, name="redis").wait(deadline)

    def _request(
        self,
        pipeline: Any,  # noqa: ANN401
        last: int,
        key: str,
        field: str,
    ) -> None:
        options = self._options
        if options.type == "zset":
            pipeline.zrevrange(key, 0, last, withscores=options.scores is True)
        elif options.type == "list":
            pipeline.lrange(key, 0, last)
        elif options.type == "string":
            pipeline.getrange(key, 0, options.max_bytes)
        else:
            pipeline.hget(key, field)

    def _add(self, lists: ListCollector, user: str, reply: object) -> None:
        max_bytes = self._options.max_bytes
        if isinstance(reply, Exception):
            lists.fail(user, _reason(reply), self._server.describe(reply))
        elif not reply:
            lists.fail(
                user, CoverageReason.MISSING, "there is no value at the user's key: check key"
            )
        elif isinstance(reply, list):
            scores = None
            if self._options.scores is True:
                reply, scores = zip(*reply, strict=True)
            lists.add(user, reply, scores)
        elif len(str(reply).encode(errors="surrogateescape")) > max_bytes:
            note = f"the user's JSON is longer than max_bytes, {max_bytes}"
            lists.fail(user, CoverageReason.TOO_LARGE, note)
        else:
            self._add_json(lists, user, str(reply))

    def _add_json(self, lists: ListCollector, user: str, document: str) -> None:
        scores = None
        try:
            answer = parse_cell(parse_json(document))
            items = self._items(answer)
            if self._scores is not None:
                scores = self._scores(answer)
        except ValueError:
            note = "the value is not JSON to which items and scores can be applied"
            lists.fail(user, CoverageReason.MALFORMED, note)
            return
        # Neither the whole value nor an item of a list may be an object.
        values = [items, *items] if isinstance(items, list) else [items]
        problem = None
        if items is None:
            problem = "there is nothing"
        elif any(isinstance(value, dict) for value in values):
            problem = "there are objects and no ids"
        if problem is None:
            lists.add(user, items, scores)
        else:
            shape = shape_of(answer, [user])
            note = f"{problem} at the path that `items` gives ({self._options.items}), in {shape}"
            lists.fail(user, CoverageReason.MALFORMED, note)


def _reason(error: Exception) -> CoverageReason:
    if isinstance(error, OverdueError | redis.TimeoutError):
        return CoverageReason.TIMEOUT
    if isinstance(error, redis.InvalidResponse) or str(error).startswith("WRONGTYPE"):
        return CoverageReason.MALFORMED
    answers = redis.ResponseError | redis.AuthenticationError | redis.BusyLoadingError
    if isinstance(error, answers):
        return CoverageReason.SERVER_ERROR
    return CoverageReason.UNREACHABLE


class RedisUsers:
    """Users in Redis. Port: UserSource."""

    def __init__(self, options: RedisUsersOptions) -> None:
        self._options = options
        self._server = RedisServer(options)

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users. Raises SourceError if there are dimensions, because Redis has no segments."""
        most = self._options.max_rows
        key = fill_slot(self._options.key, slot)
        where = f"{key!r} in {self._server.where}"
        require_columns(dimensions, [], where)
        call = BackgroundCall(partial(self._read, key, most + 1), name="redis")
        try:
            members = call.wait(Deadline.after(self._options.timeout.total_seconds()))
        except _ERRORS as error:
            raise SourceError(
                f"{where} cannot be read: {self._server.describe(error)}", permanent=False
            ) from None
        if len(members) > most:
            raise SourceError(f"{where} has more than {most} users: raise max_rows")
        if not members:
            raise SourceError(
                f"{where} has no user: check `key` of `users`, and check that the job which writes "
                "it has run",
                permanent=False,
            )
        tally = Tally(where)
        users = tally.users(members, key)
        require_readable(tally.unreadable, self._options.max_unreadable)
        return build_user_table([(users, {})], tally)

    def _read(self, key: str, most: int) -> list[str]:
        with closing(self._server.open()) as client, interrupt_when_given_up(client.close):
            return list(islice(_read_members(client, key), most))


def _read_members(client: Any, key: str) -> Iterator[str]:  # noqa: ANN401
    """The members of the set. If the key has ``{user}``, the users in the names of the keys."""
    before, placeholder, after = key.partition("{user}")
    if not placeholder:
        yield from client.sscan_iter(key, count=_ROWS)
        return
    pattern = "*".join(re.sub(r"([\[\]*?^\\])", r"\\\1", part) for part in (before, after))
    for name in client.scan_iter(match=pattern, count=_ROWS):
        yield name[len(before) : len(name) - len(after)]
