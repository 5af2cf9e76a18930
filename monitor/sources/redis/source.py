"""RedisSource: asks for the users of a panel batch by batch, within one deadline.

RedisUsers: members of a set, or keys.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from monitor.deadline import BackgroundCall, Deadline, OverdueError, interrupt_when_given_up
from monitor.errors import ConfigError, SourceError
from monitor.foreign_errors import redis_cause
from monitor.model.rankings import CoverageReason, Pull, UserTable
from monitor.model.runs import PullRequest
from monitor.model.unreadable import Need, require_readable
from monitor.reading.ids import user_key
from monitor.reading.tally import Tally
from monitor.slot_templates import fill_slot
from monitor.sources.columns import require_columns
from monitor.sources.expressions import finder, shape_of
from monitor.sources.list_collector import ListCollector, from_json, spell_items
from monitor.sources.lookup_tables import user_table
from monitor.sources.redis import RedisSourceOptions, RedisUsersOptions

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
        "redis: needs an extra: install it with pip install 'rankwatch[redis]'"
    ) from None

_ROWS = 1000
_RETRIES = 2
_ERRORS = (redis.RedisError, RedisClusterException, OSError, OverdueError, ValueError)
_SEVERAL = re.compile(r"(rediss?)\+(sentinel|cluster)(://(?:.*@)?)([^/?]+)/?([^/?]*)(.*)")


class RedisServer:
    """One server, the master that sentinels name, or a cluster."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url, self._timeout_s = url, timeout_s
        self.where = "Redis " + re.sub(r"^.*?://(.*@)?|[?].*$", "", url)

    def open(self) -> Any:  # noqa: ANN401 - redis-py's clients have no class in common
        """A client, which connects when it is used; that of a cluster asks for its nodes now."""
        retry = Retry(ExponentialWithJitterBackoff(base=0.1, cap=5), _RETRIES)
        common = {
            "protocol": 2,
            "decode_responses": True,
            "encoding_errors": "surrogateescape",
            "retry": retry,
        }
        common |= {"socket_timeout": self._timeout_s, "socket_connect_timeout": self._timeout_s}
        if not (several := _SEVERAL.fullmatch(self._url)):
            return redis.Redis.from_url(self._url, **common)
        scheme, form, login, hosts, service, rest = several.groups()
        parsed = [parse_url(f"{scheme}{login}{host}{rest}") for host in hosts.split(",")]
        nodes = [
            (each.pop("host"), each.pop("port", 26379 if form == "sentinel" else 6379))
            for each in parsed
        ]
        given = parsed[0] | common | {"ssl": parsed[0].pop("connection_class", None) is not None}
        of_sentinels = {"password": given.pop("sentinel_password", None), "username": None, "db": 0}
        if form == "cluster":
            return RedisCluster(startup_nodes=[ClusterNode(*node) for node in nodes], **given)
        return Sentinel(nodes, sentinel_kwargs=given | of_sentinels, **given).master_for(service)

    def tell(self, error: Exception) -> str:
        """What happened and what to do, in our own words."""
        if isinstance(error, OverdueError):
            return "no answer when the deadline passed"
        if isinstance(error, MovedError):
            return "is a node of a cluster: write redis+cluster:// in url"
        return str(redis_cause(error))


class RedisSource:
    """One arm's lists in Redis.

    Port: Source. A server that leaves a batch without an answer, asked twice, is given up.
    """

    def __init__(self, options: RedisSourceOptions) -> None:
        self._options = options
        self._server = RedisServer(options.url.get_secret_value(), options.timeout.total_seconds())
        self._items = finder(options.items)
        self._scores = finder(options.scores) if isinstance(options.scores, str) else None

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        users, answered = request.users.tolist(), 0
        lists = ListCollector(
            request.k, has_scores=self._options.scores is not None, no_item=self._options.no_item
        )
        try:
            for reply in self._replies(request, users):
                self._take(lists, users[answered], reply)
                answered += 1
        except _ERRORS as error:
            for user in users[answered:]:
                lists.fail(user, _reason(error), self._server.tell(error))
        pull = spell_items(lists.pull(), self._options.item_ids)
        tally = Tally(self._server.where)
        if lists.unreadable:
            tally.count(self._options.key, Need.LISTS, lists.unreadable, len(users), lists.example)
            require_readable(tally.unreadable, self._options.max_unreadable)
        notes = {reason: f"{self._server.where}: {note}" for reason, note in pull.notes.items()}
        return replace(pull, notes=notes, unreadable=tally.unreadable)

    def _replies(self, request: PullRequest, users: Sequence[str]) -> Iterator[object]:
        """In the users' order; an error that concerns one of them is the reply."""
        # In threads that are given up at the deadline: names may hang in DNS, and answers may
        # trickle.
        deadline, size = Deadline.after(request.timeout_s), self._options.batch
        last = -1 if self._options.no_item else request.k - 1
        key, field = (
            fill_slot(template, request.slot).replace("{k}", str(request.k))
            for template in (self._options.key, self._options.field or "")
        )
        with closing(BackgroundCall(self._server.open, name="redis").wait(deadline)) as client:
            for start in range(0, len(users), size):
                pipeline = client.pipeline(transaction=False)
                for user in users[start : start + size]:
                    self._ask(
                        pipeline, last, key.replace("{user}", user), field.replace("{user}", user)
                    )
                yield from BackgroundCall(
                    partial(pipeline.execute, raise_on_error=False), name="redis"
                ).wait(deadline)

    def _ask(self, pipeline: Any, last: int, key: str, field: str) -> None:  # noqa: ANN401 - one of redis-py's two
        options = self._options
        if options.type == "zset":
            pipeline.zrevrange(key, 0, last, withscores=options.scores is True)
        elif options.type == "list":
            pipeline.lrange(key, 0, last)
        elif options.type == "string":
            pipeline.getrange(key, 0, options.max_bytes)
        else:
            pipeline.hget(key, field)

    def _take(self, lists: ListCollector, user: str, reply: object) -> None:
        try:
            self._settle(lists, user, reply)
        except Exception as error:  # noqa: BLE001 - the reply came from outside
            note = f"what stands there cannot be read ({type(error).__name__})"
            lists.fail(user, CoverageReason.MALFORMED, note)

    def _settle(self, lists: ListCollector, user: str, reply: object) -> None:
        if isinstance(reply, Exception):
            lists.fail(user, _reason(reply), self._server.tell(reply))
        elif not reply:
            lists.fail(
                user, CoverageReason.MISSING, "nothing stands at the user's key: is key right?"
            )
        elif isinstance(reply, list):
            items, scores = (
                zip(*reply, strict=True) if self._options.scores is True else (reply, None)
            )
            lists.add(user, items, scores)
        elif len(str(reply).encode(errors="surrogateescape")) > self._options.max_bytes:
            lists.fail(
                user,
                CoverageReason.TOO_LARGE,
                f"the user's JSON is longer than max_bytes, {self._options.max_bytes}",
            )
        else:
            self._settle_json(lists, user, str(reply))

    def _settle_json(self, lists: ListCollector, user: str, text: str) -> None:
        try:
            answer = from_json(text)
            items, scores = self._items(answer), self._scores(answer) if self._scores else None
        except ValueError:
            lists.fail(
                user,
                CoverageReason.MALFORMED,
                "what stands there is no JSON to which items and scores can be applied",
            )
            return
        if items is None:
            lists.fail(
                user,
                CoverageReason.MALFORMED,
                f"nothing stands where items says, in {shape_of(answer, [user])}",
            )
        else:
            lists.add(user, items, scores)


def _reason(error: Exception) -> CoverageReason:
    if isinstance(error, OverdueError | redis.TimeoutError):
        return CoverageReason.TIMEOUT
    if isinstance(error, redis.InvalidResponse) or str(error).startswith("WRONGTYPE"):
        return CoverageReason.MALFORMED
    has_answered = isinstance(
        error, redis.ResponseError | redis.AuthenticationError | redis.BusyLoadingError
    )
    return CoverageReason.SERVER_ERROR if has_answered else CoverageReason.UNREACHABLE


class RedisUsers:
    """Users in Redis. Port: UserSource."""

    def __init__(self, options: RedisUsersOptions) -> None:
        self._options = options
        self._server = RedisServer(options.url.get_secret_value(), options.timeout.total_seconds())

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All of them; there are no segments."""
        most, key = self._options.max_rows, fill_slot(self._options.key, slot)
        where = f"{key!r} in {self._server.where}"
        require_columns(dimensions, [], where)
        deadline = Deadline.after(self._options.timeout.total_seconds())
        try:
            users, odd = BackgroundCall(partial(self._read, key, most + 1), name="redis").wait(
                deadline
            )
        except _ERRORS as error:
            raise SourceError(
                f"{where} cannot be read: {self._server.tell(error)}", permanent=False
            ) from None
        if len(users) > most:
            raise SourceError(f"{where} holds more than {most} users: raise max_rows")
        tally = Tally(where)
        tally.count(key, Need.IDS, users.null_count, len(users), odd)
        require_readable(tally.unreadable, self._options.max_unreadable)
        return user_table([(users, {})], tally)

    def _read(self, key: str, most: int) -> tuple[pa.Array, str | None]:
        """The users, null for one that is no id, and the first of these."""
        odd: list[str] = []

        def usable(member: str) -> str | None:
            user = user_key(member)
            if user is None and not odd:
                odd.append(member)
            return user

        with closing(self._server.open()) as client, interrupt_when_given_up(client.close):
            users = pa.array(map(usable, islice(_members(client, key), most)), pa.large_string())
        return users, next(iter(odd), None)


def _members(client: Any, key: str) -> Iterable[str]:  # noqa: ANN401 - one of redis-py's two
    """Members of a set; of a name with ``{user}`` what stands there in names of keys."""
    before, has_user, after = key.partition("{user}")
    if not has_user:
        return (member for member in client.sscan_iter(key, count=_ROWS))
    glob = "*".join(re.sub(r"([\[\]*?^\\])", r"\\\1", part) for part in (before, after))
    return (
        name[len(before) : len(name) - len(after)]
        for name in client.scan_iter(match=glob, count=_ROWS)
    )
