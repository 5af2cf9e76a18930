"""Ids to codes as machine code, by numba: a table of hashes, kept small, that is read a block of ids at a time.

Each id has a key of two words. Text of up to 15 bytes is its own key: bytes and length. Longer text has its hash and length;
in the end its bytes are held against those where its code was first, so no hash is trusted. Reading a block goes in passes
without a branch that depends on the ids (keys, homes in the table, codes found there, keys of these codes), so that the
processor waits for many cells at once; only ids that are new, or not at home, are settled one by one, in order.

Hashes are multilinear over halves of words, by numbers drawn anew for each call (Lemire and Kaser, Strongly universal string
hashing is fast, The Computer Journal 57, 2014), so nobody can prepare ids that meet; a long text is hashed 16 bytes
at a time, each time with the hash so far.

Why a compiler and not Arrow's dictionary encoding, which pandas uses: nanoseconds an id on one core of an EPYC, catalogues of
10,000, 100,000 and a million, for ``item-<number>``: 12, 13 and 55 here, 32, 69 and 202 there. Coding and comparing a million
pairs of lists of ten texts on two cores takes 0.75 s so and 5.1 s with dictionary encoding. To compile takes three seconds, to
load 0.05 s.

All in one file, because numba's cache notices changes of the file alone that holds what is cached.
"""
# ruff: noqa: PLR0913, PLR0917 - machine code takes its arrays one by one

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit, types

from monitor.kernels.engines.results import Coded
from monitor.model.arrays import Offsets

CompiledStep = TypeVar("CompiledStep", bound=Callable[..., Any])
Bits = Any
"""An integer, a truth value or an array of a type that numba infers."""
Word: Any = np.uint64

BLOCK = 256
_SLOT_BITS, _GROWTH_BITS = Word(12), Word(2)
"""Of the first table, and of each growth; slots are twice as many as the ids that they may hold, so that most are at home."""
# Places from home on that are looked at for many ids at once; those further off are few.
_STEPS = 2
_SEED_BYTES = 7 * 8

_WORD, _KEY = Word(8), Word(16)
_HALF, _LOW = Word(32), Word(0xFFFFFFFF)
_LENGTH = Word(56)  # where the length stands in a key's second word, above up to seven bytes of text
_LONG = Word(255) << _LENGTH
_NO_KEY = Word(254) << _LENGTH
_MASKS = tuple(Word((1 << (8 * count)) - 1) for count in range(9))


def _step(function: CompiledStep) -> CompiledStep:
    """Compiled as a part of what calls it."""
    return cast("CompiledStep", njit(nogil=True, error_model="numpy")(function))


def _compile(*signatures: Any) -> Callable[[CompiledStep], CompiledStep]:  # noqa: ANN401 - types of numba
    """Compiled at import for these types, or loaded from numba's cache."""

    def compile_it(function: CompiledStep) -> CompiledStep:
        return cast("CompiledStep", njit(list(signatures), nogil=True, error_model="numpy", cache=True)(function))

    return compile_it


def _read_only(kind: Any) -> Any:  # noqa: ANN401 - types of numba
    """The type of an array that may be read-only, as those of Arrow are."""
    return types.Array(kind, 1, "C", readonly=True)


def code_by_table(offsets: Offsets, data: npt.NDArray[np.uint8]) -> Coded | None:
    """Codes of the texts ``data[offsets[i]:offsets[i + 1]]`` by order of first appearance, and where each appears first.

    None in the one case in 2**64 or so that two hashes meet.
    """
    codes = np.empty(len(offsets) - 1, dtype=np.int32)
    firsts, has_long = _code_by_table(offsets, data, _draw_seed(), codes)
    return None if has_long and not _are_same(offsets, data, codes, firsts) else (codes, firsts)


def _draw_seed() -> npt.NDArray[np.uint64]:
    return np.frombuffer(secrets.token_bytes(_SEED_BYTES), dtype=Word)


@_step
def _read_word(data: Bits, at: Bits) -> Bits:
    """Eight bytes, which LLVM knows to be one instruction."""
    low = Word(data[at]) | Word(data[at + Word(1)]) << Word(8) | Word(data[at + Word(2)]) << Word(16)
    low |= Word(data[at + Word(3)]) << Word(24) | Word(data[at + Word(4)]) << Word(32)
    low |= Word(data[at + Word(5)]) << Word(40) | Word(data[at + Word(6)]) << Word(48)
    return low | Word(data[at + Word(7)]) << Word(56)


@_step
def _read_bytes(data: Bits, low: Bits, high: Bits) -> Bits:
    """Less than eight bytes, one by one: the last ones of all must not be read beyond."""
    word = Word(0)
    for at in range(low, high):
        word |= Word(data[at]) << ((at - low) * _WORD)
    return word


@_step
def _mix(seed: Bits, state: Bits, one: Bits, other: Bits) -> Bits:
    mixed = seed[0] + (seed[1] + (state & _LOW)) * (seed[2] + (state >> _HALF))
    mixed += (seed[3] + (one & _LOW)) * (seed[4] + (one >> _HALF))
    return mixed + (seed[5] + (other & _LOW)) * (seed[6] + (other >> _HALF))


@_step
def _hash_text(data: Bits, low: Bits, high: Bits, seed: Bits) -> Bits:
    """Hash of at least 16 bytes; the last 16 overlap those before."""
    state = high - low
    for at in range(low, high - _KEY, _KEY):
        state = _mix(seed, state, _read_word(data, at), _read_word(data, at + _WORD))
    return _mix(seed, state, _read_word(data, high - _KEY), _read_word(data, high - _WORD))


@_step
def _read_keys(offsets: Bits, data: Bits, low: int, seed: Bits, masks: Bits, ones: Bits, others: Bits) -> Bits:
    """Keys of a block of texts, and whether some are long."""
    size, longest = Word(len(data)), Word(0)
    for i in range(len(ones)):
        start, end = Word(offsets[low + i]), Word(offsets[low + i + 1])
        length = end - start
        in_one = min(length, _WORD)
        if length >= _KEY:
            ones[i], others[i] = _hash_text(data, start, end, seed), _LONG | length
        elif start + _KEY <= size:
            ones[i] = _read_word(data, start) & masks[in_one]
            others[i] = (_read_word(data, start + _WORD) & masks[length - in_one]) | (length << _LENGTH)
        else:
            ones[i] = _read_bytes(data, start, start + in_one)
            others[i] = _read_bytes(data, start + in_one, end) | (length << _LENGTH)
        longest = max(longest, others[i])
    return longest >= _LONG


@_step
def _home(one: Bits, other: Bits, seed: Bits, bits: Bits) -> Bits:
    return _mix(seed, Word(0), one, other) >> (Word(64) - bits)


@_step
def _is_key(keys: Bits, code: Bits, one: Bits, other: Bits) -> Bits:
    """Whether the code, or -1, has this key: never for -1. The key of a code stands at ``keys[2 * code + 2]``."""
    key = Word(2) * Word(np.uint32(code + np.int32(1)))
    return ((keys[key] ^ one) | (keys[key + Word(1)] ^ other)) == Word(0)


@_step
def _look_up(slots: Bits, keys: Bits, beyond: Bits, ones: Bits, others: Bits, homes: Bits, missed: Bits, codes: Bits) -> Bits:
    """Codes of the ``missed`` ids that are so many slots beyond home; how many are missed still."""
    last, count = Word(len(slots) - 1), Word(0)
    for nth in range(len(missed)):
        i = np.uint32(missed[nth])
        codes[i] = slots[(homes[i] + beyond) & last]
    for nth in range(len(missed)):
        i = np.uint32(missed[nth])
        missed[count] = i
        count += Word(not _is_key(keys, codes[i], ones[i], others[i]))
    return np.int64(count)


@_step
def _find_slot(slots: Bits, keys: Bits, one: Bits, other: Bits, slot: Bits) -> Bits:
    """The slot, from home on, where the id stands, or, when it is new, has room."""
    while slots[slot] >= 0 and not _is_key(keys, slots[slot], one, other):
        slot = (slot + Word(1)) & Word(len(slots) - 1)
    return slot


@_step
def _extend(values: Bits, size: int) -> Bits:
    longer = np.empty(size, values.dtype)
    for i in range(len(values)):  # a slice would have numba compile its error message, two seconds of it
        longer[i] = values[i]
    return longer


_CODES, _PLACES = types.int32[::1], types.int64[::1]
_SEED, _OFFSETS, _DATA = _read_only(types.uint64), _read_only(types.int64), _read_only(types.uint8)
_FOUND = cast("Any", types).Tuple([_PLACES, types.boolean])


@_compile(_FOUND(_OFFSETS, _DATA, _SEED, _CODES))
def _code_by_table(offsets: Bits, data: Bits, seed: Bits, codes: Bits) -> Bits:
    """Fill in the codes; where each code is first, and whether texts are long."""
    masks, has_long, count, bits = np.array(_MASKS, np.uint64), False, 0, _SLOT_BITS
    slots, firsts = np.full(1 << bits, -1, np.int32), np.empty(1 << (bits - Word(1)), np.int64)
    keys = np.full(2 * len(firsts) + 2, _NO_KEY, np.uint64)
    all_ones, all_others, all_homes = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    for low in range(0, len(codes), BLOCK):
        some = codes[low : low + BLOCK]
        ones, others, homes, missed = all_ones[: len(some)], all_others[: len(some)], all_homes, np.arange(len(some))
        has_long |= _read_keys(offsets, data, low, seed, masks, ones, others)
        if count + BLOCK > len(firsts):
            bits += _GROWTH_BITS
            slots, firsts = np.full(1 << bits, -1, np.int32), _extend(firsts, 1 << (bits - Word(1)))
            keys = _extend(keys, 2 * len(firsts) + 2)
            for code in range(count):
                one, other = keys[2 * code + 2], keys[2 * code + 3]
                slots[_find_slot(slots, keys, one, other, _home(one, other, seed, bits))] = code
        for i in range(len(some)):
            homes[i] = _home(ones[i], others[i], seed, bits)
        many = len(some)
        for beyond in range(_STEPS):
            many = _look_up(slots, keys, Word(beyond), ones, others, homes, missed[:many], some)
        for nth in range(many):
            i = missed[nth]
            slot = _find_slot(slots, keys, ones[i], others[i], homes[i])
            if slots[slot] < 0:
                slots[slot], firsts[count] = count, low + i
                keys[2 * count + 2], keys[2 * count + 3] = ones[i], others[i]
                count += 1
            some[i] = slots[slot]
    return firsts[:count].copy(), has_long


@_compile(types.boolean(_OFFSETS, _DATA, _CODES, _PLACES))
def _are_same(offsets: Bits, data: Bits, codes: Bits, firsts: Bits) -> Bits:
    """Whether each long text has the bytes of the text where its code was first."""
    differs = Word(0)
    for i in range(len(codes)):
        start, end = Word(offsets[i]), Word(offsets[i + 1])
        if end - start < _KEY:
            continue
        first = Word(offsets[firsts[np.uint32(codes[i])]])
        # Without a branch a text: on many texts at once the processor then waits for memory but once.
        differs |= _read_word(data, end - _WORD) ^ _read_word(data, first + (end - start) - _WORD)
        for at in range(start, end - _WORD, _WORD):
            differs |= _read_word(data, at) ^ _read_word(data, first + (at - start))
    return differs == Word(0)
