"""Canaries: secrets that can be found in any place and in any form.

Each contains the name of its place.
"""

import base64
import pickle
import re
import traceback
from typing import Any, get_args
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, SecretStr

MARK = "c4n4rys1ngs"
_WHOLE = re.compile(rb"c4n4rys1ngs[a-z0-9]*")


def canary(place):
    """The secret of that place: letters and digits, of 32 characters at least, since some keys have to be."""
    assert re.fullmatch("[a-z]+", place)
    return f"{MARK}{place}".ljust(32, "0")


def _in_base64():
    """Parts of every base64 text with the mark: one for each place in a group of three bytes."""
    for offset in range(3):
        coded = base64.b64encode(bytes(offset) + MARK.encode())
        whole = (offset + len(MARK)) * 8 // 6
        yield coded[-(-offset * 8 // 6) : whole]


_BASE64 = tuple(_in_base64())
_HEX = MARK.encode().hex().encode()


def songs_in(output):
    """The canaries in an output: plain in upper or lower case, percent-encoded, in base64 or in hexadecimal digits."""
    raw = output.encode(errors="surrogateescape") if isinstance(output, str) else output
    text = raw + b"\n" + unquote_to_bytes(raw)
    found = {each.decode() for each in _WHOLE.findall(text.lower())}
    for coded in _BASE64:
        if coded not in text:
            continue  # to look for what is around it takes far longer
        found |= {
            _decoded(around)
            for around in re.findall(rb"[A-Za-z0-9+/_-]*" + coded + rb"[A-Za-z0-9+/_-]*", text)
        }
    return found | ({f"{MARK} in hexadecimal digits"} if _HEX in text.lower() else set())


def owners_in(output):
    """The places whose secrets are in the output."""
    return frozenset(song.removeprefix(MARK).rstrip("0") for song in songs_in(output))


def _decoded(coded):
    """The canary in a base64 text. A group of four may begin at any place."""
    for start in range(4):
        piece = coded[start:].replace(b"-", b"+").replace(b"_", b"/")
        if found := _WHOLE.search(base64.b64decode(piece[: len(piece) // 4 * 4])):
            return found[0].decode()
    return f"{MARK} in base64"


def secret_fields(model):
    """Class and name of every option below this one that can contain a secret: SecretStr, or any value."""
    found = set()
    waiting = [model]
    seen = set()
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        for name, field in each.model_fields.items():
            parts = list(_parts(field.annotation))
            waiting += [
                part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)
            ]
            if SecretStr in parts or Any in parts:
                found.add((each.__name__, name))
    return found


def _parts(annotation):
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def options_in(value):
    """The value and every option below it."""
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from options_in(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from options_in(item)


def singing_fields(settings):
    """Class and name of every option that contains a canary."""
    return {
        (type(each).__name__, name)
        for each in options_in(settings)
        for name in type(each).model_fields
        if songs_in("".join(_revealed(getattr(each, name))))
    }


def _revealed(value):
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _revealed(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _revealed(item)


def told_by(error):
    """All that can be got out of an error: its texts, its traceback, its pickle, and the same of what it was raised from."""
    told = ["".join(traceback.format_exception(error))]
    for each in chain_of(error):
        told += [str(each), repr(each), repr(each.args), repr(getattr(each, "__notes__", ""))]
        told += "".join(traceback.TracebackException.from_exception(each, compact=False).format())
    told.append(repr(pickle.dumps(error)))
    return "\n".join(told)


def chain_of(error):
    """The error and all errors that caused it, except those that ``from None`` hides."""
    seen = {}
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen[id(each)] = each
            waiting += [each.__cause__, None if each.__suppress_context__ else each.__context__]
    return seen.values()
