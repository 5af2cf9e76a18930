"""Hashes by which lists are known again, the same on every machine; whoever wants two of them to meet can have that."""

import numpy as np
import numpy.typing as npt

from monitor.model.arrays import Codes

Hashes = npt.NDArray[np.uint64]


def mix(hashes: Hashes) -> Hashes:
    """Other hashes of which each bit depends on all bits of one: sums of them say of what they are sums.

    The finalizer of SplitMix64 (Steele, Lea and Flood 2014), which maps no two numbers to one.
    """
    mixed = hashes ^ (hashes >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def hash_lists(codes: Codes, hashes: Hashes | None = None) -> Hashes:
    """A hash of each row (n,) of lists (n, k) that are padded with -1, by the items and their places.

    ``hashes``: of each code, None where codes stand for themselves. The sum of items times random numbers, one a place (Lemire
    and Kaser 2014), modulo 2**64. Cost: O(n k), and two arrays (n,).
    """
    of_codes = None if hashes is None else np.append(hashes, ~np.uint64(0))
    sums = np.zeros(len(codes), dtype=np.uint64)
    for column, factor in zip(codes.T, mix(np.arange(1, codes.shape[1] + 1, dtype=np.uint64)), strict=True):
        sums += (column.astype(np.uint64) if of_codes is None else of_codes[column]) * factor
    return sums
