"""Passwords: right, wrong, and how much work it is to find out. Work is counted, not timed."""

from collections.abc import Callable

import bcrypt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from monitor.web.access import Credentials
from web.sites import hashed


class Counting:
    """bcrypt that counts its rounds."""

    def __init__(self, compare: Callable[[bytes, bytes], bool] = bcrypt.checkpw) -> None:
        self.rounds = self.calls = 0
        self._compare = compare

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.rounds += 2 ** int(hashed[4:6])
        self.calls += 1
        return self._compare(password, hashed)


@pytest.mark.parametrize("prefix", ["2a", "2b", "2y"])
def test_the_right_password_is_right_by_hashes_of_every_maker(prefix: str) -> None:
    credentials = Credentials({"kim": hashed("pass:word", prefix=prefix)})

    assert credentials.verify(b"kim", b"pass:word")
    assert not credentials.verify(b"kim", b"pass")
    assert not credentials.verify(b"KIM", b"pass:word")
    assert not credentials.verify(b"", b"")


def test_a_password_beyond_72_bytes_is_cut_as_its_hash_was() -> None:
    credentials = Credentials({"kim": hashed("x" * 72)})

    assert credentials.verify(b"kim", b"x" * 72 + b"anything")
    assert not credentials.verify(b"kim", b"x" * 71)


def test_odd_bytes_are_only_wrong() -> None:
    credentials = Credentials({"kim": hashed("secret")})

    for password in (b"", b"\0", b"\xff\xfe", b"secret\0", b"x" * 100_000):
        assert not credentials.verify(b"kim", password)
        assert not credentials.verify(password, b"secret")


def test_what_was_right_once_is_remembered_and_nothing_else_is() -> None:
    credentials = Credentials({"kim": hashed("secret")})

    assert not credentials.remembers(b"kim", b"secret")
    credentials.verify(b"kim", b"wrong")
    credentials.verify(b"kim", b"secret")

    assert credentials.remembers(b"kim", b"secret")
    assert not credentials.remembers(b"kim", b"wrong")
    assert not credentials.remembers(b"kims", b"ecret")
    assert not credentials.remembers(b"", b"kimsecret")


def test_nobody_is_asked_where_there_are_no_users() -> None:
    assert not Credentials({})
    assert Credentials({"kim": hashed("x")})


def test_a_digest_is_of_no_use_in_another_process() -> None:
    one, other = (Credentials({"kim": hashed("secret")}) for _ in range(2))
    assert one._digest(b"kim", b"secret") != other._digest(b"kim", b"secret")


@pytest.mark.parametrize("user", [b"low", b"middle", b"high", b"nobody", b""])
@pytest.mark.parametrize("password", [b"right", b"wrong", b""])
def test_every_attempt_costs_as_many_rounds_as_the_costliest_hash(user: bytes, password: bytes) -> None:
    counting = Counting(lambda _password, _hashed: False)
    users = {"low": hashed("right", 4), "middle": hashed("right", 6), "high": hashed("right", 7)}

    Credentials(users, compare=counting).verify(user, password)

    assert counting.rounds == 2**7


@settings(max_examples=30)
@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(4, 16), min_size=1, max_size=5), st.binary(), st.binary())
def test_the_work_reveals_nothing_of_who_there_is(costs: dict[str, int], user: bytes, password: bytes) -> None:
    tail = "." * 53
    rounds = set()
    for name in (*(name.encode() for name in costs), user):
        counting = Counting(lambda _password, _hashed: False)
        users = {each: SecretStr(f"$2b${cost:02d}${tail}") for each, cost in costs.items()}
        Credentials(users, compare=counting).verify(name, password)
        rounds.add(counting.rounds)
    assert rounds == {2 ** max(costs.values())}


def test_with_hashes_of_one_cost_an_unknown_user_and_a_wrong_password_are_one_comparison_each() -> None:
    counting = Counting()
    credentials = Credentials({"kim": hashed("secret"), "joe": hashed("other")}, compare=counting)

    for user, password in ((b"kim", b"wrong"), (b"nobody", b"wrong"), (b"joe", b"other")):
        before = counting.calls
        credentials.verify(user, password)
        assert counting.calls == before + 1
