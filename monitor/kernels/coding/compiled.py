# ruff: noqa: PLR0913, PLR0917 - machine code takes its arrays one by one
"""Ids to codes as machine code, by numba: a table of hashes, kept small, that is read a block of ids at a time.

Each id has a key of two words. Text of up to 15 bytes is its own key: bytes and length. Longer text has its hash and length,
and equal keys count only where the bytes are equal too, so no hash is ever trusted. Reading a block goes in passes without a
branch that depends on the ids (keys, homes in the table, codes found there, keys of these codes), so that the processor waits
for many cells at once; only ids that are new, or not at home, are settled one by one, in order.

Hashes are multilinear over halves of words, by numbers drawn anew for each call (Lemire and Kaser, Strongly universal string
hashing is fast, The Computer Journal 57, 2014), so nobody can prepare ids that meet; a long text is hashed 16 bytes
at a time, each time with the hash so far.

Why a compiler: nanoseconds an id on one core of an EPYC, machine code and pandas, catalogues of 10,000, 100,000 and a million:
12 and 32, 13 and 69, 55 and 202 for ``item-<number>``; 33 and 39, 49 and 106, 157 and 201 for ids of 36 bytes; 9 and 28, 15 and
36, 53 and 76 for integers. Four of them go to reading a short text and its hash; the rest is waiting for a table that does not
fit into the second-level cache. To compile takes eight seconds, to load 0.05 s.

All in one file, because numba's cache notices changes of the file alone that holds what is cached.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit, types

from monitor.kernels.finding.found import Coded

Step = TypeVar("Step", bound=Callable[..., Any])
Array = npt.NDArray[Any]
Bits = Any
"""An integer or a truth value of a type that numba infers."""

Word: Any = np.uint64

Words = npt.NDArray[np.uint64]

BLOCK = 256
_SLOTS, _GROWTH = 1 << 12, 4
_SPARSE = 2
"""Slots an id at least, so that most ids are at home, and a search that goes on from there ends soon."""
_STEPS = 2
"""Places from home on that are looked at for many ids at once; those further off are few."""
_SEED_BYTES = 7 * 8

_WORD, _KEY = Word(8), Word(16)
_HALF, _LOW = Word(32), Word(0xFFFFFFFF)
_LENGTH = Word(56)  # where the length stands in a key's second word, above up to seven bytes of text
_LONG = Word(255) << _LENGTH
_NO_KEY = Word(254) << _LENGTH
_MASKS = tuple(Word((1 << (8 * count)) - 1) for count in range(9))


def _step(function: Step) -> Step:
    """Compiled as a part of what calls it."""
    return cast("Step", njit(nogil=True, error_model="numpy")(function))


def _compile(*signatures: Any) -> Callable[[Step], Step]:  # noqa: ANN401 - types of numba
    """Compiled at import for these types, or loaded from numba's cache."""

    def compile_it(function: Step) -> Step:
        return cast("Step", njit(list(signatures), nogil=True, error_model="numpy", cache=True)(function))

    return compile_it


def _read_only(kind: Any) -> Any:  # noqa: ANN401 - types of numba
    """The type of an array that may be read-only, as those of Arrow are."""
    return types.Array(kind, 1, "C", readonly=True)


class _Table(NamedTuple):
    """A hash table: ``slots`` hold codes, or -1.

    The id of a code has two words at ``keys[2 * code + 2]``, and was first at ``firsts[code]``; if it is a long text, its
    bytes stand from ``heap[places[code]]`` on, close together, because those where it was first may be anywhere in memory.
    """

    slots: npt.NDArray[np.int32]
    keys: Words
    firsts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    heap: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, slots: int, heap: int) -> _Table:
        room = slots // _SPARSE
        keys = np.empty(2 * room + 2, dtype=Word)
        keys[:2] = 0, _NO_KEY
        firsts, places = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        return cls(np.full(slots, -1, dtype=np.int32), keys, firsts, places, np.empty(heap, dtype=np.uint8))

    def grow(self, count: int, heap: int, seed: Words) -> _Table:
        """The same ids in a table that has room for at least a block more, and for so many bytes."""
        is_full = count + BLOCK > len(self.firsts)
        larger = _Table.of(len(self.slots) * (_GROWTH if is_full else 1), max(heap, len(self.heap)))
        arrays: tuple[tuple[Array, Array], ...] = tuple(zip(self[1:], larger[1:], strict=True))
        for old, new in arrays:
            new[: len(old)] = old
        _move_in(larger.slots, larger.keys, count, seed)
        return larger


def code_text(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> Coded:
    """Codes of the texts ``data[offsets[i]:offsets[i + 1]]`` by order of first appearance, and where each appears first."""
    seed, codes, table = _draw_seed(), np.empty(len(offsets) - 1, dtype=np.int32), _Table.of(_SLOTS, 0)
    done, count, used = _code_text(offsets, data, seed, *table, codes, 0, 0, 0)
    while done < len(codes):
        needed = used + int(offsets[min(done + BLOCK, len(codes))] - offsets[done])
        table = table.grow(count, len(table.heap) if needed <= len(table.heap) else 2 * needed, seed)
        done, count, used = _code_text(offsets, data, seed, *table, codes, done, count, used)
    return codes, table.firsts[:count].copy()


def code_integers(values: npt.NDArray[np.int64]) -> Coded:
    """Codes of the values by order of first appearance, and where each appears first: coded as texts of eight bytes."""
    return code_text(np.arange(0, values.nbytes + 1, values.itemsize), np.ascontiguousarray(values).view(np.uint8))


def recode(codes: npt.NDArray[np.int32], others: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """``others[code]`` for each code."""
    recoded = np.empty(len(codes), dtype=np.int32)
    _recode(np.ascontiguousarray(codes), others, recoded)
    return recoded


def mark(codes: Array, seen: npt.NDArray[np.bool_]) -> None:
    """Mark each of these codes, int32 or int64, as seen."""
    _mark(np.ascontiguousarray(codes), seen)


def _draw_seed() -> Words:
    return np.frombuffer(secrets.token_bytes(_SEED_BYTES), dtype=Word)


@_step
def _read_word(data: Array, at: Bits) -> Bits:
    """Eight bytes, which LLVM knows to be one instruction."""
    low = Word(data[at]) | Word(data[at + Word(1)]) << Word(8) | Word(data[at + Word(2)]) << Word(16)
    low |= Word(data[at + Word(3)]) << Word(24) | Word(data[at + Word(4)]) << Word(32)
    low |= Word(data[at + Word(5)]) << Word(40) | Word(data[at + Word(6)]) << Word(48)
    return low | Word(data[at + Word(7)]) << Word(56)


@_step
def _read_bytes(data: Array, low: Bits, high: Bits) -> Bits:
    """Less than eight bytes, one by one: the last ones of all must not be read beyond."""
    word = Word(0)
    for at in range(low, high):
        word |= Word(data[at]) << ((at - low) * _WORD)
    return word


@_step
def _mix(seed: Array, state: Bits, one: Bits, other: Bits) -> Bits:
    mixed = seed[0] + (seed[1] + (state & _LOW)) * (seed[2] + (state >> _HALF))
    mixed += (seed[3] + (one & _LOW)) * (seed[4] + (one >> _HALF))
    return mixed + (seed[5] + (other & _LOW)) * (seed[6] + (other >> _HALF))


@_step
def _hash_text(data: Array, low: Bits, high: Bits, seed: Array) -> Bits:
    """Hash of at least 16 bytes; the last 16 overlap those before."""
    state = high - low
    for at in range(low, high - _KEY, _KEY):
        state = _mix(seed, state, _read_word(data, at), _read_word(data, at + _WORD))
    return _mix(seed, state, _read_word(data, high - _KEY), _read_word(data, high - _WORD))


@_step
def _read_keys(offsets: Array, data: Array, low: int, seed: Words, masks: Words, ones: Words, others: Words) -> Bits:
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
def _home(one: Bits, other: Bits, seed: Words, shift: Bits) -> Bits:
    return _mix(seed, Word(0), one, other) >> shift


@_step
def _is_same_text(data: Array, low: Bits, high: Bits, heap: Array, place: Bits) -> Bits:
    """Whether a text of at least 16 bytes stands in the heap at this place, too."""
    # Without a branch a text: on many texts at once the processor then waits for the heap but once.
    differs = _read_word(data, high - _WORD) ^ _read_word(heap, place + (high - low) - _WORD)
    for at in range(low, high - _WORD, _WORD):
        differs |= _read_word(data, at) ^ _read_word(heap, place + (at - low))
    return differs == Word(0)


@_step
def _is_key(keys: Words, code: Bits, one: Bits, other: Bits) -> Bits:
    """Whether the code, or -1, has this key: never for -1."""
    key = Word(2) * Word(np.uint32(code + np.int32(1)))
    return ((keys[key] ^ one) | (keys[key + Word(1)] ^ other)) == Word(0)


@_step
def _look_up(
    slots: Array, keys: Words, beyond: Bits, ones: Words, others: Words, homes: Words, missed: Array, codes: Array
) -> Bits:
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
def _has_impostor(
    offsets: Array, data: Array, low: int, ones: Words, others: Words, codes: Array, keys: Words, places: Array, heap: Array
) -> Bits:
    """Whether a long text has the key of its code and is another: two hashes of 64 bits have met."""
    for i in range(len(ones)):
        if others[i] >= _LONG and _is_key(keys, codes[i], ones[i], others[i]):
            start, end = Word(offsets[low + i]), Word(offsets[low + i + 1])
            if not _is_same_text(data, start, end, heap, Word(places[codes[i]])):
                return True
    return False


@_step
def _find(
    data: Array,
    start: Bits,
    end: Bits,
    slots: Array,
    keys: Words,
    places: Array,
    heap: Array,
    one: Bits,
    other: Bits,
    home: Bits,
) -> Bits:
    """The slot where the id stands, or, when it is new, has room."""
    slot, last = home, Word(len(slots) - 1)
    while slots[slot] >= 0:
        code = slots[slot]
        if _is_key(keys, code, one, other) and (other < _LONG or _is_same_text(data, start, end, heap, Word(places[code]))):
            return slot
        slot = (slot + Word(1)) & last
    return slot


@_step
def _keep(data: Array, start: Bits, end: Bits, heap: Array, place: int) -> None:
    for at in range(start, end):
        heap[Word(place) + (at - start)] = data[at]


@_step
def _settle(
    offsets: Array,
    data: Array,
    slots: Array,
    keys: Words,
    firsts: Array,
    places: Array,
    heap: Array,
    ones: Words,
    others: Words,
    homes: Words,
    missed: Array,
    codes: Array,
    low: int,
    count: int,
    used: int,
) -> tuple[int, int]:
    """Code the ids that are missed still, in order: the new ones are known from now on."""
    for nth in range(len(missed)):
        i: Bits = np.uint32(missed[nth])
        start, end = Word(offsets[low + i]), Word(offsets[low + i + 1])
        slot = _find(data, start, end, slots, keys, places, heap, ones[i], others[i], homes[i])
        if slots[slot] < 0:
            slots[slot], firsts[count], places[count] = count, low + i, used
            keys[2 * count + 2], keys[2 * count + 3] = ones[i], others[i]
            count += 1
            if others[i] >= _LONG:
                _keep(data, start, end, heap, used)
                used += int(end - start)
        codes[i] = slots[slot]
    return count, used


@_step
def _shift(slots: Array) -> Bits:
    """How far a hash is shifted to be a place among so many slots, a power of two."""
    shift = Word(64)
    while len(slots) >> (Word(64) - shift) > 1:
        shift -= Word(1)
    return shift


_CODES, _WORDS, _PLACES, _BYTES = types.int32[::1], types.uint64[::1], types.int64[::1], types.uint8[::1]
_SEED, _OFFSETS, _DATA = _read_only(types.uint64), _read_only(types.int64), _read_only(types.uint8)
_STATE = cast("Any", types).Tuple([types.int64] * 3)


@_compile(types.void(_read_only(types.int32), _CODES, _CODES))
def _recode(codes: Array, others: Array, recoded: Array) -> None:
    for i in range(len(codes)):
        recoded[i] = others[np.uint32(codes[i])]


@_compile(*(types.void(_read_only(kind), types.boolean[::1]) for kind in (types.int32, types.int64)))
def _mark(codes: Array, seen: Array) -> None:
    for i in range(len(codes)):
        seen[np.uint32(codes[i])] = True


@_compile(types.void(_CODES, _WORDS, types.int64, _SEED))
def _move_in(slots: Array, keys: Words, count: int, seed: Words) -> None:
    shift, last = _shift(slots), Word(len(slots) - 1)
    for code in range(count):
        slot = _home(keys[2 * code + 2], keys[2 * code + 3], seed, shift)
        while slots[slot] >= 0:
            slot = (slot + Word(1)) & last
        slots[slot] = code


@_compile(_STATE(_OFFSETS, _DATA, _SEED, _CODES, _WORDS, _PLACES, _PLACES, _BYTES, _CODES, *[types.int64] * 3))
def _code_text(
    offsets: Array,
    data: Array,
    seed: Words,
    slots: Array,
    keys: Words,
    firsts: Array,
    places: Array,
    heap: Array,
    codes: Array,
    low: int,
    count: int,
    used: int,
) -> tuple[int, int, int]:
    """Go on from text ``low``, when ``count`` are known and ``used`` bytes kept, to the end or until the table is full."""
    shift, masks = _shift(slots), np.array(_MASKS, np.uint64)
    all_ones, all_others, all_homes = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    all_missed = np.empty(BLOCK, np.int32)
    while low < len(codes) and count + BLOCK <= len(firsts):
        some = codes[low : low + BLOCK]
        size = len(some)
        ones, others, homes, missed = all_ones[:size], all_others[:size], all_homes[:size], all_missed[:size]
        has_long = _read_keys(offsets, data, low, seed, masks, ones, others)
        if has_long and used + offsets[low + size] - offsets[low] > len(heap):
            break
        for i in range(size):
            homes[i], missed[i] = _home(ones[i], others[i], seed, shift), i
        many = size
        for beyond in range(_STEPS):
            many = _look_up(slots, keys, Word(beyond), ones, others, homes, missed[:many], some)
        if has_long and _has_impostor(offsets, data, low, ones, others, some, keys, places, heap):
            missed[:], many = np.arange(size), size
        count, used = _settle(
            offsets, data, slots, keys, firsts, places, heap, ones, others, homes, missed[:many], some, low, count, used
        )
        low += size
    return low, count, used
