"""Lists and users from a real Redis: every type, one server, sentinels and a cluster.

And what may go wrong.
"""

import json

import pytest
import redis

from monitor.model.errors import SourceError
from monitor.sources.list_collector import ListCollector
from monitor.sources.redis import RedisUsersOptions
from monitor.sources.redis.source import RedisUsers
from servers import free_port
from servers.daemon import wait_for
from servers.lists import SLOT, as_lists, pull_of
from servers.proxy import proxying
from servers.redis import PASSWORD, emptied_redis, running_redis, shared_redis

pytestmark = pytest.mark.integration
HERE = {"type": "string", "key": "{user}", "max_unreadable": 1}


@pytest.fixture
def client():
    with emptied_redis() as emptied:
        yield emptied


def pulled(*users, timeout_s=60, **keys):
    options = {"url": f"redis://127.0.0.1:{shared_redis()}"} | keys
    return pull_of(*users, k=3, timeout_s=timeout_s, redis=options)


def scored(pull):
    return as_lists(pull), pull.rankings.scores.tolist()


def users_of(key, **more):
    options = RedisUsersOptions.model_validate(
        {"url": f"redis://127.0.0.1:{shared_redis()}", "key": key} | more
    )
    return sorted(RedisUsers(options).users(SLOT, ()).users)


def test_a_sorted_set_gives_the_best_first_with_ties(client):
    client.zadd("recs:1", {"a": 0.5, "b": 2.25, "c": 2.25, "d": -1, "e": float("inf")})

    best = pulled("1", type="zset", key="recs:{user}", scores=True)

    assert scored(best) == ({"1": ["e", "c", "b"]}, [float("inf"), 2.25, 2.25])


def test_json_is_read_by_its_expressions_from_strings_and_fields_of_a_hash(client):
    text = json.dumps({"recs": [{"id": 7, "p": 0.5}, {"id": 3, "p": 0.5}]})
    client.set("2024-01-08:{u}:3", text)
    client.hset("user:u", "recs", text)
    found = {"items": "recs[].id", "scores": "recs[].p"}

    of_string = pulled("u", type="string", key="{slot:%Y-%m-%d}:{{user}}:{k}", **found)
    of_field = pulled("u", type="hash", key="user:{user}", field="recs", **found)

    assert scored(of_string) == scored(of_field) == ({"u": ["7", "3"]}, [0.5, 0.5])


def test_each_odd_key_has_its_reason_and_other_users_keep_their_lists(client):
    odd = {
        "text": "oops",
        "deep": "[" * 10**5,
        "bytes": b'["\xff"]',
        "object": "{}",
        "half": "[1, 0.5]",
        "named": '[{"id": 1}]',
    }
    client.mset({"ok": '"[1]"', "huge": '["é"]' * 10**5, **odd})
    client.rpush("wrong", "1")

    pull = pulled(*odd, "wrong", "ok", "huge", "none", batch=4, **HERE)

    reasons = dict.fromkeys((*odd, "wrong"), "malformed")
    reasons |= {"huge": "too_large", "none": "missing"}
    assert (as_lists(pull), pull.failures) == ({"ok": ["1"]}, reasons)
    where = f"Redis 127.0.0.1:{shared_redis()}"
    assert pull.notes["missing"] == f"{where}: there is no value at the user's key: check key"
    assert "objects and no ids at the path" in pulled("named", **HERE).notes["malformed"]


def test_a_pull_that_hangs_ends_in_time_and_keeps_the_lists_that_it_got(client, monkeypatch):
    client.mset({"1": "[1]", "2": "[2]"})
    with proxying(shared_redis()) as proxy:
        url, add = f"redis://127.0.0.1:{proxy.port}", ListCollector.add

        def add_and_hang(*args):
            add(*args)
            proxy.hang()

        monkeypatch.setattr(ListCollector, "add", add_and_hang)
        late = pulled("1", "2", "3", url=url, timeout_s=2, batch=1, **HERE)

    assert as_lists(late) == {"1": ["1"]}
    assert late.failures == dict.fromkeys("23", "timeout")


def test_users_are_members_or_what_keys_have_in_common(client):
    client.mset({"recs:*:a": "", "recs:*:b": "", "recs:x:c": "", "recs:*": ""})
    client.sadd("set", *range(2500))

    assert users_of("recs:*:{user}") == ["a", "b"]
    assert len(users_of("set")) == 2500
    with pytest.raises(SourceError, match=r"has more than 2499 users: raise max_rows"):
        users_of("set", max_rows=2499)
    with pytest.raises(SourceError, match=r"'none' in .* has no user: check `key` of `users`"):
        users_of("none")
    with pytest.raises(SourceError, match=r"'set' in .* be read: the connection was refused"):
        users_of("set", url="redis://127.0.0.1:1")


def test_a_login_that_may_only_read_is_enough_with_and_without_sentinels(client, tmp_path):
    client.execute_command("ACL SETUSER", "reader", "on", f">{PASSWORD}", "~*", "+@read")
    client.set("1", "[5]")
    conf = tmp_path / "sentinel.conf"
    conf.write_text(f"sentinel monitor shop 127.0.0.1 {shared_redis()} 1")

    with running_redis(str(conf), "--sentinel") as port:
        sentinels = f"redis+sentinel://{{}}@127.0.0.1:1,127.0.0.1:{port}/shop/0"
        for place in (sentinels, f"redis://{{}}@127.0.0.1:{shared_redis()}/0"):
            pulls = [
                pulled("1", url=place.format(login), **HERE)
                for login in (f"reader:{PASSWORD}", "reader:wrong")
            ]
            assert as_lists(pulls[0]) == {"1": ["5"]}
            assert pulls[1].failures == {"1": "server_error"}


def test_a_cluster_is_asked_node_by_node_and_scanned_as_a_whole():
    options = ["--cluster-enabled", "yes", "--cluster-port", str(free_port())]
    with running_redis(*options) as port, redis.Redis(port=port) as node:
        node.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        wait_for(lambda: node.cluster("INFO")["cluster_state"] == "ok", "the cluster")
        for user in "012345678":
            node.set(f"r:{{{user}}}", f"[{user}]")
        url = f"redis+cluster://127.0.0.1:{port}"

        lists = as_lists(pulled(*"012345678", url=url, type="string", key="r:{{user}}"))
        assert lists == {user: [user] for user in "012345678"}
        assert users_of("r:{{user}}", url=url) == list("012345678")
    assert pulled("1", url=url, **HERE).failures == {"1": "unreachable"}
