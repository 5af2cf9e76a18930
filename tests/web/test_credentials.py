"""Passwords: right, wrong, and how much work it is to find out. Work is counted, not timed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from monitor.web.access import Credentials
from web.sites import hashed


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


@settings(max_examples=30)
@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(4, 16), min_size=1, max_size=5),
    st.binary(),
    st.binary(),
    st.booleans(),
)
def test_every_attempt_costs_as_many_rounds_as_the_costliest_hash_whoever_it_is_and_right_or_wrong(
    costs: dict[str, int], user: bytes, password: bytes, is_right: bool
) -> None:
    users = {each: SecretStr(f"$2b${cost:02d}${'.' * 53}") for each, cost in costs.items()}
    for name in (*(name.encode() for name in costs), user):
        rounds: list[int] = []

        def compare(_: bytes, hashed: bytes, rounds: list[int] = rounds) -> bool:
            rounds.append(2 ** int(hashed[4:6]))
            return is_right

        Credentials(users, compare=compare).verify(name, password)
        assert sum(rounds) == 2 ** max(costs.values())
