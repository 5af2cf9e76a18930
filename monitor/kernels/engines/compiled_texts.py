"""Texts to codes as machine code, by numba: a table of hashes with open addressing, read a block of texts at a time.

Up to 15 bytes are their own key, with their length; of longer text the bytes are held against those where its code was first,
so no hash is trusted. A block goes in passes, so that the processor waits for many cells at once. Nanoseconds a text on one
core of a Xeon, catalogues of 10,000, 100,000 and a million, for ``item-<number>``: 5, 13 and 39; Arrow's dictionary: 15, 42 and
149.
"""

import secrets

import numpy as np

from monitor.kernels.engines.compiled_pairs import Array, compiled_for, step
from monitor.model.arrays import Codes, Offsets

BLOCK = 256
FIRST_SLOTS = 1 << 13
"""Of the first table.

It grows once a quarter is taken, so that most texts are found where they are looked for first.
"""

Word = np.uint64
_ALL, _HALF, _EIGHT = Word(2**64 - 1), Word(32), Word(8)
_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)
_LENGTH = Word(
    56
)  # where the length stands in a key's second word, above up to seven bytes of text
_LONG = Word(255) << _LENGTH
_TEXTS = "Array(int64, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True)"


def code_texts(
    offsets: Offsets, data: Array, seed: int | None = None
) -> tuple[Codes, Offsets] | None:
    """Codes of the texts ``data[offsets[i]:offsets[i + 1]]`` by order of first appearance, and where each appears first.

    The offsets must ascend within the data. None in the one case in 2**64 that two long texts' hashes meet; they depend on a
    ``seed`` drawn anew for each call, so nobody can prepare texts that meet.
    """
    count = len(offsets) - 1
    codes, firsts = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int64)
    known, has_long = _code(
        offsets, data, Word(secrets.randbits(64) | 1 if seed is None else seed), codes, firsts
    )
    return (
        None
        if has_long and not _are_same(offsets, data, codes, firsts)
        else (codes, firsts[:known].copy())
    )


@step
def _read_word(data: Array, at: Word | int) -> Word:
    """Eight bytes, which LLVM knows to be one instruction."""
    word = Word(0)
    for i in range(_EIGHT):
        word |= Word(data[at + i]) << (_EIGHT * i)
    return word


@step
def _read_start(data: Array, at: Word, end: Word) -> Word:
    """Up to eight bytes, 0 beyond the end."""
    size = min(max(at, end) - at, _EIGHT)
    if at + _EIGHT <= Word(len(data)):
        return Word(_read_word(data, at) & _MASKS[size])
    word = Word(0)
    for i in range(size):
        word |= Word(data[at + i]) << (_EIGHT * i)
    return word


@step
def _mix(state: Word, word: Word, seed: Word) -> Word:
    """Each bit of both changes half of the bits, as in the last steps of MurmurHash3."""
    state ^= word
    state = (state ^ (state >> _HALF)) * seed
    state = (state ^ (state >> _HALF)) * seed
    return state ^ (state >> _HALF)


@step
def _hash(data: Array, start: Word, end: Word, seed: Word) -> Word:
    state = end - start
    for at in range(start, end - _EIGHT, _EIGHT):
        state = _mix(state, _read_word(data, at), seed)
    return _mix(state, _read_word(data, end - _EIGHT), seed)


@step
def _read_keys(offsets: Offsets, data: Array, seed: Word, ones: Array, others: Array) -> Word:
    """Fill in the keys of a block of texts; all bits of the keys' second words."""
    # For a step of one text that returns in two places numba would count references to the data:
    # two locked additions a text.
    seen = Word(0)
    for i in range(len(offsets) - 1):
        start, end = Word(offsets[i]), Word(offsets[i + 1])
        length = end - start
        if length < Word(16):
            ones[i] = _read_start(data, start, end)
            others[i] = _read_start(data, start + _EIGHT, end) | length << _LENGTH
        else:
            ones[i], others[i] = _hash(data, start, end, seed), _LONG | length
        seen |= others[i]
    return seen


@step
def _home_of(one: Word, other: Word, seed: Word, slots: Array) -> Word:
    return _mix(other * seed, one, seed) & Word(len(slots) - 1)


@step
def _is_key(keys: Array, code: np.int32, one: Word, other: Word) -> bool:
    """Whether the code, or -1, has this key: never for -1.

    The key of a code stands in the row after it.
    """
    row = Word(np.uint32(code + np.int32(1)))
    return not ((keys[row, 0] ^ one) | (keys[row, 1] ^ other))


@step
def _find_slot(slots: Array, keys: Array, one: Word, other: Word, slot: Word) -> Word:
    """The slot, from home on, where the text stands, or, when it is new, has room."""
    while slots[slot] >= 0 and not _is_key(keys, slots[slot], one, other):
        slot = (slot + Word(1)) & Word(len(slots) - 1)
    return slot


@compiled_for(f"Tuple((int64, boolean))({_TEXTS}, uint64, int32[::1], int64[::1])")
def _code(
    offsets: Offsets, data: Array, seed: Word, codes: Codes, firsts: Offsets
) -> tuple[int, bool]:
    """Fill in the codes and where each is first.

    How many there are, and whether any text is long.
    """
    slots, keys, count = (
        np.full(FIRST_SLOTS, -1, np.int32),
        np.empty((len(codes) + 1, 2), np.uint64),
        0,
    )
    ones, others, homes = (
        np.empty(BLOCK, np.uint64),
        np.empty(BLOCK, np.uint64),
        np.empty(BLOCK, np.uint64),
    )
    keys[0, 1], seen = _ALL, Word(0)
    for low in range(0, len(codes), BLOCK):
        some = codes[low : low + BLOCK]
        if 4 * (count + BLOCK) > len(slots):
            slots = np.full(4 * len(slots), -1, np.int32)
            for code in range(count):
                one, other = keys[code + 1, 0], keys[code + 1, 1]
                slots[_find_slot(slots, keys, one, other, _home_of(one, other, seed, slots))] = code
        seen |= _read_keys(offsets[low : low + len(some) + 1], data, seed, ones, others)
        for i in range(len(some)):
            homes[i] = _home_of(ones[i], others[i], seed, slots)
        for i in range(len(some)):
            some[i] = slots[homes[i]]
        for i in range(len(some)):
            if not _is_key(keys, some[i], ones[i], others[i]):
                slot = _find_slot(slots, keys, ones[i], others[i], homes[i])
                if slots[slot] < 0:
                    slots[slot], firsts[count] = count, low + i
                    count += 1
                    keys[count, 0], keys[count, 1] = ones[i], others[i]
                some[i] = slots[slot]
    return count, bool(seen >= _LONG)


@compiled_for(f"boolean({_TEXTS}, int32[::1], int64[::1])")
def _are_same(offsets: Offsets, data: Array, codes: Codes, firsts: Offsets) -> bool:
    """Whether each long text has the bytes of the text where its code was first."""
    differs = Word(0)
    for i in range(len(codes)):
        start, end = Word(offsets[i]), Word(offsets[i + 1])
        if end - start < Word(16):
            continue
        ahead = Word(offsets[firsts[np.uint32(codes[i])]]) - start
        differs |= _read_word(data, end - _EIGHT) ^ _read_word(data, end - _EIGHT + ahead)
        for at in range(start, end - _EIGHT, _EIGHT):
            differs |= _read_word(data, at) ^ _read_word(data, at + ahead)
    return not differs
