"""Ids of items and users as integer codes, and the one rule that says which ids are equal.

Ids are equal where Python says so (1, 1.0 and True are one), and a whole number equals the text
that spells it: 42 and "42", as one side may speak JSON and the other CSV; "042", "42.0", " 42" are
others. A UUID equals its text. Sources spell whole numbers as integers and all other ids as text,
which changes no id for another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.kernels.engines import choice
from monitor.kernels.exposure import look_up
from monitor.model.arrays import Codes, Ids, Integers, Rows

WORTH_A_THREAD = 1 << 17
"""Ids from which on two threads are faster than one."""
_CODE_LIMIT = 2**31
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,999}")


def equality_key(item: object) -> object:
    """What stands for an id in a dict or set: equal exactly where ids are."""
    if isinstance(item, str):
        return int(item) if _WHOLE.fullmatch(item) else item
    return str(item) if isinstance(item, UUID) else item


def encode(*arms: Ids) -> tuple[list[Integers], pd.Index | None]:
    """Codes from 0 to 2**31 - 1 of each arm's ids, equal where the ids are equal, and the ids by code.

    Integers that can be codes are taken as they are, without a vocabulary (None). Otherwise codes follow the first appearance;
    arms are coded apart, in threads where that pays, and only distinct ids meet.
    """
    if all(isinstance(ids, np.ndarray) and _are_codes(ids) for ids in arms):
        return [np.asarray(ids) for ids in arms], None
    if len(arms) > 1 and max(map(len, arms)) >= WORTH_A_THREAD:
        with ThreadPoolExecutor(max_workers=2) as threads:
            coded = list(threads.map(_encode_one, arms))
    else:
        coded = list(map(_encode_one, arms))
    shared, vocabulary = _encode_vocabularies([ids for _, ids in coded])
    return [_share(own, codes) for (own, _), codes in zip(coded, shared, strict=True)], vocabulary


def hash_ids(vocabulary: pd.Index) -> npt.NDArray[np.uint64]:
    """A hash of each id, equal where ids are equal: of a whole number it is the number, which `encode` may take for a code."""
    if _kind(vocabulary) == "i":
        return vocabulary.to_numpy().astype(np.uint64)
    texts = vocabulary.astype("str")
    hashes = pd.util.hash_array(texts.to_numpy(dtype=object), categorize=False)
    is_whole = np.asarray(texts.str.fullmatch("0|-?[1-9][0-9]{0,17}"), dtype=np.bool_)
    hashes[is_whole] = texts[is_whole].astype(np.int64)
    return hashes


def codes_of(ids: Ids, vocabulary: pd.Index | None) -> Codes:
    """Codes of ids that came from elsewhere, in the vocabulary of `encode`.

    -1 for an id that it does not hold.
    """
    if vocabulary is None and _kind(ids) == "i":
        whole = np.asarray(ids)
        return np.where((whole >= 0) & (whole < _CODE_LIMIT), whole, -1).astype(np.int32)
    if isinstance(ids, pd.Categorical):
        return codes_of(_array(ids.categories), vocabulary).take(ids.codes)
    if vocabulary is None:
        return np.fromiter(map(_own_code, ids.tolist()), dtype=np.int32, count=len(ids))
    return _positions(ids, vocabulary).astype(np.int32)


def decode(codes: Codes, vocabulary: pd.Index | None) -> tuple[str, ...]:
    """Item ids of one padded row as text, padding left out."""
    return tuple(map(str, ids_of(codes[codes >= 0], vocabulary)))


def ids_of(codes: npt.NDArray[Any], vocabulary: pd.Index | None) -> list[Any]:
    """The ids of these codes; of several equal ones that which came first."""
    return list((codes if vocabulary is None else vocabulary.take(codes)).tolist())


def rank_by_text(codes: npt.NDArray[Any], vocabulary: pd.Index | None) -> Rows:
    """Place of each of these distinct codes in the order of their ids: ascending as text, then by the name of their type."""
    ids = pd.Index(codes) if vocabulary is None else vocabulary.take(codes)
    if _kind(ids) in {"i", "text"}:
        order = ids.astype("str").argsort()
    else:
        keys = [(str(item), type(item).__name__) for item in ids.tolist()]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)
    ranks = np.empty(len(codes), dtype=np.intp)
    ranks[order] = np.arange(len(codes))
    return ranks


def find_users(wanted: pd.Index, present: pd.Index) -> Rows:
    """Position of each wanted user among those present, which are distinct; -1 where absent."""
    if present is wanted or present.equals(wanted):
        return np.arange(len(wanted), dtype=np.intp)
    if not _kind(wanted) == _kind(present) == "text":
        return _positions(_array(wanted), present)
    # One pass over both: an index of text builds a hash table of Python objects.
    codes, _ = pd.factorize(pd.concat([pd.Series(wanted), pd.Series(present)], ignore_index=True))
    row_of = np.full(len(codes), -1, dtype=np.intp)
    row_of[codes[len(wanted) :]] = np.arange(len(present))
    return row_of[: len(wanted)]


def _kind(ids: Ids | pd.Index) -> str:
    """``i`` for integers, ``f`` for other numbers, ``text``, or ``other``."""
    dtype = ids.dtype
    return (
        "text"
        if isinstance(dtype, pd.StringDtype)
        else dtype.kind
        if dtype.kind in "if"
        else "other"
    )


def _array(ids: pd.Index | pd.Series) -> Ids:
    return ids.to_numpy() if isinstance(ids.dtype, np.dtype) else ids.array


def _are_codes(ids: npt.NDArray[Any]) -> bool:
    if ids.dtype not in (np.int32, np.int64):
        return False
    # Negative numbers seen as unsigned are above the limit, too.
    return bool(
        ids.view(np.uint32 if ids.dtype == np.int32 else np.uint64).max(initial=0) < _CODE_LIMIT
    )


def _own_code(item: object) -> int:
    """The code of an id where codes are the ids."""
    key = equality_key(item)
    try:
        code = int(key)  # type: ignore[call-overload] # whatever cannot be a number raises
    except (TypeError, ValueError, OverflowError):
        return -1
    return code if code == key and 0 <= code < _CODE_LIMIT else -1


def _share(own: npt.NDArray[Any], shared: Codes) -> Integers:
    """Shared codes instead of an arm's own; the first arm's mostly are the shared ones already."""
    return (
        own
        if own.dtype == np.int32 and np.array_equal(shared, np.arange(len(shared)))
        else look_up(shared, own)
    )


def _encode_one(ids: Ids) -> tuple[npt.NDArray[Any], Ids]:
    """Codes of one arm, and its distinct ids by code."""
    if isinstance(ids, pd.Categorical):
        return ids.codes, _array(ids.categories)
    if ids.dtype == object:
        known: dict[object, tuple[int, Any]] = {}
        codes = np.fromiter(
            (known.setdefault(equality_key(item), (len(known), item))[0] for item in ids),
            dtype=np.int64,
        )
        return codes, np.fromiter(
            (item for _, item in known.values()), dtype=object, count=len(known)
        )
    if (coded := _encode_texts(ids)) is not None:
        return coded
    if ids.dtype == np.int32:
        ids = np.asarray(ids, dtype=np.int64)
    codes, distinct = pd.factorize(
        ids if isinstance(ids, np.ndarray) else pd.Series(ids, copy=False).array
    )
    return codes, distinct


def _encode_texts(ids: Ids) -> tuple[Codes, Ids] | None:
    """`_encode_one` of texts that Arrow holds, read where they lie.

    None without machine code, and where one is missing.
    """
    if not isinstance(ids, pd.arrays.ArrowStringArray) or not len(ids):
        return None
    if (machine := choice.compiled(choice.TEXT_COST * len(ids))) is None:
        return None
    chunks = ids.__arrow_array__()
    texts = chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()
    if texts.null_count:
        return None
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    coded = machine.code_texts(places, np.frombuffer(data or b"", np.uint8))
    return None if coded is None else (coded[0], ids.take(coded[1]))


def _encode_vocabularies(arms: Sequence[Ids]) -> tuple[list[Codes], pd.Index]:
    """Codes shared by the arms' distinct ids."""
    filled = [ids for ids in arms if len(ids)]
    kinds = set(map(_kind, filled))
    if kinds == {"i", "text"}:
        # One side from JSON, the other from CSV: as text Arrow codes them, as objects a dict would.
        filled = [
            ids if _kind(ids) == "text" else pd.Series(ids).astype("str").array for ids in filled
        ]
    if (len(kinds) == 1 and "other" not in kinds) or kinds == {"i", "text"}:
        joined = _array(pd.concat([pd.Series(part) for part in filled], ignore_index=True))
    else:
        joined = np.fromiter(chain.from_iterable(part.tolist() for part in filled), dtype=object)
    codes, ids = _encode_one(joined)
    bounds = np.cumsum([len(part) for part in arms])[:-1]
    dtype = object if ids.dtype == object else None
    return np.split(codes.astype(np.int32), bounds), pd.Index(ids, dtype=dtype, tupleize_cols=False)


def _positions(wanted: Ids, present: pd.Index) -> Rows:
    """Position of each wanted id among distinct ones that are present, -1 where absent."""
    kinds = {_kind(wanted), _kind(present)}
    if kinds == {"i", "text"}:
        return present.astype("str").get_indexer(pd.Index(wanted).astype("str"))
    if len(kinds) == 1 and "other" not in kinds:
        return present.get_indexer(pd.Index(wanted))
    rows = {equality_key(item): row for row, item in enumerate(present.tolist())}
    return np.fromiter(
        (rows.get(equality_key(item), -1) for item in wanted.tolist()),
        dtype=np.intp,
        count=len(wanted),
    )
