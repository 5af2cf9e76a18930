"""Lists and users from a real Redis: every type, one server, sentinels and a cluster; and what may go wrong."""

import json
import re
import socketserver
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from forking import rankwatch
from monitor.errors import SourceError
from monitor.model.rankings import CoverageReason, Pull
from monitor.sources.list_collector import ListCollector
from monitor.sources.redis import RedisUsersOptions
from monitor.sources.redis.source import RedisUsers
from servers import listening
from servers.lists import SLOT, as_lists, request, source_of, write_jsonl
from servers.proxy import proxying
from servers.redis import PASSWORD, emptied_redis, running_redis, shared_redis

HERE: dict[str, Any] = {"type": "string", "key": "{user}"}


@pytest.fixture
def client() -> Iterator[redis.Redis]:
    with emptied_redis() as emptied:
        yield emptied


def pulled(*users: str, timeout_s: float = 60, **keys: Any) -> Pull:
    options = {"url": f"redis://127.0.0.1:{shared_redis()}"} | keys
    return source_of(redis=options).pull(request(*users, k=3, timeout_s=timeout_s))


def scored(pull: Pull) -> tuple[dict[str, list[Any]], list[float]]:
    assert pull.rankings.scores is not None
    return as_lists(pull), pull.rankings.scores.tolist()


def users_of(key: str, **more: Any) -> list[str]:
    options = RedisUsersOptions.model_validate({"url": f"redis://127.0.0.1:{shared_redis()}", "key": key} | more)
    return sorted(RedisUsers(options).users(SLOT, ()).users)


def test_a_sorted_set_gives_the_best_first_with_ties(client: redis.Redis) -> None:
    client.zadd("recs:1", {"a": 0.5, "b": 2.25, "c": 2.25, "d": -1, "e": float("inf")})

    best = pulled("1", type="zset", key="recs:{user}", scores=True)

    assert scored(best) == ({"1": ["e", "c", "b"]}, [float("inf"), 2.25, 2.25])


def test_json_is_read_by_its_expressions_from_strings_and_fields_of_a_hash(client: redis.Redis) -> None:
    text = json.dumps({"recs": [{"id": 7, "p": 0.5}, {"id": 3, "p": 0.5}]})
    client.set("2024-01-08:{u}:3", text)
    client.hset("user:u", "recs", text)
    found: dict[str, Any] = {"items": "recs[].id", "scores": "recs[].p"}

    of_string = pulled("u", type="string", key="{slot:%Y-%m-%d}:{{user}}:{k}", **found)
    of_field = pulled("u", type="hash", key="user:{user}", field="recs", **found)

    assert scored(of_string) == scored(of_field) == ({"u": ["7", "3"]}, [0.5, 0.5])


def test_each_odd_key_has_its_reason_and_costs_nobody_else_a_list(client: redis.Redis) -> None:
    client.mset(
        {"text": "oops", "deep": "[" * 10**5, "huge": '["é"]' * 10**5, "bytes": b'["\xff"]', "ok": "[1]", "object": "{}"}
    )
    client.rpush("wrong", "1")

    pull = pulled("text", "deep", "huge", "bytes", "ok", "object", "wrong", "none", batch=4, **HERE)

    reasons = dict.fromkeys(("text", "deep", "bytes", "wrong", "object"), CoverageReason.MALFORMED)
    assert as_lists(pull) == {"ok": ["1"]}
    assert pull.failures == reasons | {"huge": CoverageReason.TOO_LARGE, "none": CoverageReason.MISSING}
    where = f"Redis 127.0.0.1:{shared_redis()}: "
    assert pull.notes[CoverageReason.MISSING] == where + "nothing stands at the user's key: is key right?"
    assert pull.notes[CoverageReason.TOO_LARGE] == where + "the user's JSON is longer than max_bytes, 131072"
    assert pulled("wrong", **HERE).notes[CoverageReason.MALFORMED].startswith(where + "WRONGTYPE Operation against a key")


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """The address of what answers anything so, and ends a connection where that is nothing."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while reply and self.request.recv(65536):
                self.request.sendall(reply)

    with listening(server := socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer)):
        yield f"redis://me:{PASSWORD}@127.0.0.1:{server.server_address[1]}"


FAULTS = {
    b"-LOADING Redis is loading the dataset in memory\r\n": (CoverageReason.SERVER_ERROR, "loading the dataset"),
    b"-NOAUTH Authentication required.\r\n": (CoverageReason.SERVER_ERROR, "Authentication required"),
    b"-WRONGPASS not canary-redis-51\r\n": (CoverageReason.SERVER_ERROR, "not \\*\\*\\*"),
    b"-MOVED 1 127.0.0.1:1\r\n": (CoverageReason.SERVER_ERROR, r"a node of a cluster: write redis\+cluster://"),
    b"-READONLY You can't write\r\n": (CoverageReason.SERVER_ERROR, "You can't write"),
    b"HTTP/1.1 400 Bad Request\r\n\r\n": (CoverageReason.MALFORMED, "Protocol"),
    b"": (CoverageReason.UNREACHABLE, "Connection closed by server"),
}


@pytest.mark.parametrize("reply", FAULTS)
def test_a_server_that_does_not_serve_is_a_reason_without_its_password(reply: bytes) -> None:
    reason, told = FAULTS[reply]
    with answering(reply) as url:
        pull = pulled("1", "2", url=url, **HERE)

    assert pull.failures == dict.fromkeys("12", reason)
    assert re.search(told, pull.notes[reason])
    assert PASSWORD not in pull.notes[reason]


def test_what_hangs_ends_in_time_and_who_had_answered_keeps_the_list(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.mset({"1": "[1]", "2": "[2]"})
    with proxying(shared_redis()) as proxy:
        url, add = f"redis://127.0.0.1:{proxy.port}", ListCollector.add

        def add_and_hang(*args: Any) -> None:
            add(*args)
            proxy.hang()

        monkeypatch.setattr(ListCollector, "add", add_and_hang)
        late = pulled("1", "2", "3", url=url, timeout_s=2, batch=1, **HERE)
        impatient = pulled("1", url=url, timeout="100ms", **HERE)
        proxy.refuse()
        away = pulled("1", url=url, **HERE)

    assert as_lists(late) == {"1": ["1"]}
    assert late.failures == dict.fromkeys("23", CoverageReason.TIMEOUT)
    assert impatient.failures == {"1": CoverageReason.TIMEOUT}
    assert away.failures == {"1": CoverageReason.UNREACHABLE}


def test_users_are_members_or_what_keys_have_in_common(client: redis.Redis) -> None:
    client.mset({"recs:*:a": "", "recs:*:b": "", "recs:x:c": "", "recs:*": ""})
    client.sadd("set", *range(2500))

    assert users_of("recs:*:{user}") == ["a", "b"]
    assert len(users_of("set")) == 2500
    with pytest.raises(SourceError, match=r"'set' in Redis .* holds more than 2499 users: raise max_rows"):
        users_of("set", max_rows=2499)
    with pytest.raises(SourceError, match=r"'set' in Redis .* cannot be read: Error 111 .* refused"):
        users_of("set", url="redis://127.0.0.1:1")


def test_a_user_who_may_only_read_is_enough_also_where_sentinels_know_the_server(client: redis.Redis, tmp_path: Path) -> None:
    client.execute_command("ACL SETUSER", "reader", "on", f">{PASSWORD}", "~*", "+@read")
    client.set("1", "[5]")
    conf = tmp_path / "sentinel.conf"
    conf.write_text(f"sentinel monitor shop 127.0.0.1 {shared_redis()} 1")

    with running_redis(str(conf), "--sentinel") as port:
        sentinels = f"redis+sentinel://{{}}@127.0.0.1:1,127.0.0.1:{port}/shop/0"
        for place in (sentinels, f"redis://{{}}@127.0.0.1:{shared_redis()}/0"):
            pulls = [pulled("1", url=place.format(login), **HERE) for login in (f"reader:{PASSWORD}", "reader:wrong")]
            assert as_lists(pulls[0]) == {"1": ["5"]}
            assert pulls[1].failures == {"1": CoverageReason.SERVER_ERROR}


def test_a_cluster_is_asked_node_by_node_and_scanned_as_a_whole() -> None:
    with running_redis("--cluster-enabled", "yes") as port, redis.Redis(port=port) as node:
        node.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        while node.cluster("INFO")["cluster_state"] != "ok":
            time.sleep(0.05)
        for user in range(9):
            node.set(f"r:{{{user}}}", f"[{user}]")
        url = f"redis+cluster://127.0.0.1:{port}"

        lists = as_lists(pulled(*map(str, range(9)), url=url, type="string", key="r:{{user}}"))
        assert lists == {str(user): [str(user)] for user in range(9)}
        assert users_of("r:{{user}}", url=url) == list("012345678")
    assert pulled("1", url=url, **HERE).failures == {"1": CoverageReason.UNREACHABLE}


def test_check_and_run_once_find_the_scores_of_the_same_lists_in_files(client: redis.Redis, tmp_path: Path) -> None:
    arms = {"baseline": 1, "candidate": 3}
    for arm, step in arms.items():
        lists = {f"u{user}": [str((user * step + 7 * place) % 23) for place in range(5)] for user in range(40)}
        write_jsonl([{"user": user, "items": items} for user, items in lists.items()], tmp_path / f"{arm}.jsonl")
        for user, items in lists.items():
            client.zadd(f"{arm}:{user}", {item: -place for place, item in enumerate(items)})
    of_file = {arm: {"file": {"path": f"{arm}.jsonl", "user": "user", "items": "items"}} for arm in arms}
    of_redis = {
        arm: {"redis": {"url": f"redis://127.0.0.1:{shared_redis()}", "type": "zset", "key": f"{arm}:{{user}}"}} for arm in arms
    }
    users = {"redis": {"url": f"redis://127.0.0.1:{shared_redis()}", "key": "baseline:{user}"}}
    same = {"every": "1d", "k": 5, "users": users}
    comparisons = [{"name": name, **same, **of} for name, of in (("files", of_file), ("redis", of_redis))]
    (tmp_path / "rankwatch.yaml").write_text(json.dumps({"database": "sqlite:///rankwatch.db", "comparisons": comparisons}))

    assert rankwatch("check", cwd=tmp_path).returncode == 0
    assert rankwatch("run-once", "--slot", "2024-01-08", cwd=tmp_path).returncode == 0
    shown = [json.loads(rankwatch("show", name, "--json", cwd=tmp_path).stdout) for name in ("files", "redis")]
    assert shown[0]["summaries"] == shown[1]["summaries"] != []
