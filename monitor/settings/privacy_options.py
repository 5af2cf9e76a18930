"""What of users and items is stored and shown, and the file with the key that hides users."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from monitor.files import describe_exposure, read_bounded
from monitor.options import ConfigPath, Options

LEAST_BYTES = 32
_MOST_BYTES = 4096


def read_key(path: str) -> bytes:
    """The key that the file holds, without its last line break; ValueError where it holds none that is of use."""
    try:
        key = read_bounded(path, _MOST_BYTES).rstrip(b"\r\n")
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise ValueError(msg) from None
    if len(key) < LEAST_BYTES:
        msg = f"{path} holds {len(key)} bytes: a key has {LEAST_BYTES} at least, such as openssl rand -hex 32 writes"
        raise ValueError(msg)
    return key


def _require_key(path: str) -> str:
    read_key(path)
    return path


class PrivacyOptions(Options):
    """What of users and items is stored and shown."""

    users: Literal["plain", "hmac"] = Field(
        default="plain",
        description="`hmac`: users are stored and shown by keyed hashes of their ids (HMAC-SHA-256), everywhere. Sources are "
        "asked by the ids, and pages find a user by the id.",
    )
    key_file: Annotated[ConfigPath, AfterValidator(_require_key)] | None = Field(
        default=None,
        description=f"File with the key of `hmac`, {LEAST_BYTES} bytes or more, such as `openssl rand -hex 32` writes. With "
        "another key a user is another one: nobody's runs are joined with earlier ones.",
        examples=["users.key"],
    )
    items: Literal["shown", "hidden"] = Field(
        default="shown", description="`hidden`: messages name no items and show no lists; pages do."
    )

    @model_validator(mode="after")
    def _key_where_it_is_used(self) -> Self:
        if (self.users == "hmac") is not (self.key_file is not None):
            msg = "give users: hmac and key_file together, or neither"
            raise ValueError(msg)
        return self

    @property
    def exposure(self) -> str | None:
        """What to say where every account of this machine may read the key; None where there is nothing."""
        path = self.key_file
        return None if path is None else describe_exposure(path, "can tell who users are", f"chmod go= {path}")
