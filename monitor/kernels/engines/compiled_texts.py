"""Codes texts by machine code, compiled by numba. It uses a hash table with open addressing.

The key of a text of up to 15 bytes has the text itself and its length. The key of a longer text has
a hash. So the bytes of a longer text are compared with the first text of its code: a hash alone
never decides. Texts are processed in blocks and in several passes. So the processor waits for many
cells at once. The table has nanoseconds for each text, for texts such as ``item-17`` on one core of
a Xeon:

| distinct texts | machine code | Arrow's dictionary |
|---|---|---|
| 10,000 | 5 | 15 |
| 100,000 | 13 | 42 |
| 1,000,000 | 39 | 149 |
"""

import secrets

import numpy as np

from monitor.kernels.engines.compiled_pairs import Array, compiled_for, step
from monitor.model.arrays import Codes, Offsets

BLOCK = 256
FIRST_SLOTS = 1 << 13
"""The number of slots of the first table.

The table grows when a quarter of its slots are used. So most texts are in the first slot that is
tried.
"""

Word = np.uint64
_ALL = Word(2**64 - 1)
_HALF = Word(32)
_EIGHT = Word(8)
_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)
_LENGTH = Word(56)  # first bit of the length in a key's second word, after seven bytes of text
_LONG = Word(255) << _LENGTH
_TEXTS = "Array(int64, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True)"


def code_texts(
    offsets: Offsets,
    data: Array,
    seed: int | None = None,
) -> tuple[Codes, Offsets] | None:
    """Code texts. Returns the code of each text, and the index of each text's first appearance.

    Codes are numbered in the order of first appearance. Text i is
    ``data[offsets[i]:offsets[i + 1]]``. The offsets must ascend within the data. The result is None
    if the hashes of two different long texts are equal. This happens once in 2**64 cases. Each call
    uses a random ``seed``. So nobody can prepare texts whose hashes are equal.
    """
    count = len(offsets) - 1
    codes = np.empty(count, dtype=np.int32)
    firsts = np.empty(count, dtype=np.int64)
    if seed is None:
        seed = secrets.randbits(64) | 1
    distinct, has_long = _code(offsets, data, Word(seed), codes, firsts)
    if has_long and not _are_same(offsets, data, codes, firsts):
        return None
    return codes, firsts[:distinct].copy()


@step
def _read_word(data: Array, at: Word | int) -> Word:
    """Eight bytes as one word. LLVM compiles this function to one instruction."""
    word = Word(0)
    for i in range(_EIGHT):
        word |= Word(data[at + i]) << (_EIGHT * i)
    return word


@step
def _read_start(data: Array, at: Word, end: Word) -> Word:
    """Up to eight bytes as one word, padded with 0 after the end of the text."""
    size = min(max(at, end) - at, _EIGHT)
    if at + _EIGHT <= Word(len(data)):
        return Word(_read_word(data, at) & _MASKS[size])
    word = Word(0)
    for i in range(size):
        word |= Word(data[at + i]) << (_EIGHT * i)
    return word


@step
def _mix(state: Word, word: Word, seed: Word) -> Word:
    """Mix two words by the last steps of MurmurHash3.

    Each bit of the input changes about half of the bits of the result.
    """
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
def _read_keys(
    offsets: Offsets,
    data: Array,
    seed: Word,
    ones: Array,
    others: Array,
) -> Word:
    """Write the keys of a block of texts. Returns the OR of the second words of the keys."""
    # A function for one text with two return statements would be slower. Numba would count
    # references to the data, which costs two locked additions for each text.
    seen = Word(0)
    for i in range(len(offsets) - 1):
        start = Word(offsets[i])
        end = Word(offsets[i + 1])
        length = end - start
        if length < Word(16):
            ones[i] = _read_start(data, start, end)
            others[i] = _read_start(data, start + _EIGHT, end) | length << _LENGTH
        else:
            ones[i] = _hash(data, start, end, seed)
            others[i] = _LONG | length
        seen |= others[i]
    return seen


@step
def _home_of(one: Word, other: Word, seed: Word, slots: Array) -> Word:
    return _mix(other * seed, one, seed) & Word(len(slots) - 1)


@step
def _is_key(keys: Array, code: np.int32, one: Word, other: Word) -> bool:
    """Whether the code has this key. False for code -1.

    The key of code c is in row c + 1.
    """
    row = Word(np.uint32(code + np.int32(1)))
    return not ((keys[row, 0] ^ one) | (keys[row, 1] ^ other))


@step
def _find_slot(slots: Array, keys: Array, one: Word, other: Word, slot: Word) -> Word:
    """The slot of a text, or a free slot for a new text. The search starts at ``slot``."""
    while slots[slot] >= 0 and not _is_key(keys, slots[slot], one, other):
        slot = (slot + Word(1)) & Word(len(slots) - 1)
    return slot


@compiled_for(f"Tuple((int64, boolean))({_TEXTS}, uint64, int32[::1], int64[::1])")
def _code(
    offsets: Offsets,
    data: Array,
    seed: Word,
    codes: Codes,
    firsts: Offsets,
) -> tuple[int, bool]:
    """Write the codes and the index of each code's first text.

    Returns the number of codes, and whether a text is longer than 15 bytes.
    """
    slots = np.full(FIRST_SLOTS, -1, np.int32)
    count = 0
    keys = np.empty((len(codes) + 1, 2), np.uint64)
    ones = np.empty(BLOCK, np.uint64)
    others = np.empty(BLOCK, np.uint64)
    homes = np.empty(BLOCK, np.uint64)
    keys[0, 1] = _ALL
    seen = Word(0)
    for low in range(0, len(codes), BLOCK):
        block = codes[low : low + BLOCK]
        if 4 * (count + BLOCK) > len(slots):
            slots = np.full(4 * len(slots), -1, np.int32)
            for code in range(count):
                one = keys[code + 1, 0]
                other = keys[code + 1, 1]
                slots[_find_slot(slots, keys, one, other, _home_of(one, other, seed, slots))] = code
        seen |= _read_keys(offsets[low : low + len(block) + 1], data, seed, ones, others)
        for i in range(len(block)):
            homes[i] = _home_of(ones[i], others[i], seed, slots)
        for i in range(len(block)):
            block[i] = slots[homes[i]]
        for i in range(len(block)):
            if not _is_key(keys, block[i], ones[i], others[i]):
                slot = _find_slot(slots, keys, ones[i], others[i], homes[i])
                if slots[slot] < 0:
                    slots[slot] = count
                    firsts[count] = low + i
                    count += 1
                    keys[count, 0] = ones[i]
                    keys[count, 1] = others[i]
                block[i] = slots[slot]
    return count, bool(seen >= _LONG)


@compiled_for(f"boolean({_TEXTS}, int32[::1], int64[::1])")
def _are_same(offsets: Offsets, data: Array, codes: Codes, firsts: Offsets) -> bool:
    """Whether each long text equals the first text of its code."""
    differs = Word(0)
    for i in range(len(codes)):
        start = Word(offsets[i])
        end = Word(offsets[i + 1])
        if end - start < Word(16):
            continue
        ahead = Word(offsets[firsts[np.uint32(codes[i])]]) - start
        differs |= _read_word(data, end - _EIGHT) ^ _read_word(data, end - _EIGHT + ahead)
        for at in range(start, end - _EIGHT, _EIGHT):
            differs |= _read_word(data, at) ^ _read_word(data, at + ahead)
    return not differs
