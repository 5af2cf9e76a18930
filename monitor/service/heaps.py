"""How the C library keeps free memory. Other C libraries than glibc ignore this module."""

import ctypes
from contextlib import suppress

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_HEAPS = 2
_LARGEST_PIECE = 1 << 25
_MOST_FREE = 1 << 27


def share_heaps() -> None:
    """Make the threads of this process share two memory heaps. Call this before threads start.

    The default is eight heaps for each core. A heap keeps free memory between pieces in use. With
    the default a daemon grew by 50 MB an hour.
    """
    _set(_M_ARENA_MAX, _HEAPS)


def keep_free_memory() -> None:
    """Use the free memory of this process again, up to 128 MB, instead of returning it.

    The system clears each page that it gives out. For 200,000 users with lists of 100 items, this
    took a tenth of the CPU of a run. Arrow's own heap returns memory too, so it is not used.
    """
    import pyarrow as pa  # noqa: PLC0415 - `share_heaps` comes before all other imports

    pa.set_memory_pool(pa.system_memory_pool())
    _set(_M_MMAP_THRESHOLD, _LARGEST_PIECE)
    _set(_M_TRIM_THRESHOLD, _MOST_FREE)


def _set(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):  # the C library is not glibc
        ctypes.CDLL(None).mallopt(option, value)
