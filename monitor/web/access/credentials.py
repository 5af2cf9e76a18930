"""Whether a user's password is right: bcrypt, which is slow on purpose, and a memory of who was right."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping

import bcrypt
from pydantic import SecretStr

from monitor.web.access.options import cost_of

_LONGEST = 72  # bytes that bcrypt looks at; longer passwords are cut by all who make its hashes
_MOST_REMEMBERED = 1024


class Credentials:
    """Users and the hashes of their passwords.

    Each attempt costs the same, whether or not there is such a user and whatever the cost of their hash: so many rounds
    as the costliest hash asks for. What was right once is remembered as a digest under a key of this process alone.
    """

    def __init__(self, users: Mapping[str, SecretStr], *, compare: Callable[[bytes, bytes], bool] = bcrypt.checkpw) -> None:
        hashes = {name: secret.get_secret_value() for name, secret in users.items()}
        self._hashes = {name.encode(): hashed.encode() for name, hashed in hashes.items()}
        costs = {cost_of(hashed) for hashed in hashes.values()} or {4}
        self._highest = max(costs)
        self._decoys = {cost: bcrypt.gensalt(cost) + b"." * 31 for cost in range(min(costs), self._highest + 1)}
        self._compare = compare
        self._key = secrets.token_bytes(32)
        self._right: set[bytes] = set()

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def remembers(self, user: bytes, password: bytes) -> bool:
        """Whether exactly these were right before. At once."""
        return self._digest(user, password) in self._right

    def verify(self, user: bytes, password: bytes) -> bool:
        """Whether these are right. Takes bcrypt's time, without holding Python's lock."""
        cut = password[:_LONGEST]
        hashed = self._hashes.get(user, self._decoys[self._highest])
        is_right = self._compare(cut, hashed)
        for cost in range(cost_of(hashed.decode()), self._highest):  # 2^c, and 2^c ... 2^(h-1) more, make 2^h
            self._compare(cut, self._decoys[cost])
        if not is_right or user not in self._hashes:
            return False
        if len(self._right) >= _MOST_REMEMBERED:
            self._right.clear()
        self._right.add(self._digest(user, password))
        return True

    def _digest(self, user: bytes, password: bytes) -> bytes:
        told = len(user).to_bytes(8, "big") + user + password
        return hashlib.blake2b(told, key=self._key, digest_size=32).digest()
