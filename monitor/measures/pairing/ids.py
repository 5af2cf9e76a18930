"""Integer codes for the ids of items and users, and the rule that decides which ids are equal.

`monitor.measures.reading.ids` reads each id as an integer or as text. Two ids are equal if they are
the same as text. So 42 equals "42", because one arm may use JSON and the other CSV. "042", "42.0"
and " 42" are different ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from monitor.measures.kernels.item_codes import look_up
from monitor.model.arrays import Array, Codes, Hashes, Ids, Integers, Rows

_CODE_LIMIT = 2**31
_CODE = re.compile(r"0|[1-9][0-9]{0,9}")


def encode_ids(*arms: Ids) -> tuple[list[Integers], pd.Index | None]:
    """Replace the ids of each arm by integer codes. Returns the codes and the vocabulary.

    Codes are from 0 to 2**31 - 1. Equal ids get equal codes. The vocabulary has the id of each
    code. If all ids are integers in the range of codes, each id is its own code, and the vocabulary
    is None. Otherwise codes are numbered in the order in which their ids first appear.
    """
    if all(isinstance(ids, np.ndarray) and _are_codes(ids) for ids in arms):
        return list(map(np.asarray, arms)), None
    # First, each arm gets its own codes. Then the distinct ids of all arms get shared codes.
    codes, distinct_ids = zip(*map(_encode_one, arms), strict=True)
    shared_codes, vocabulary = _encode_vocabularies(distinct_ids)
    return list(map(_recode_arm, codes, shared_codes)), vocabulary


def hash_ids(vocabulary: pd.Index) -> Hashes:
    """A hash of each id. Equal ids have equal hashes.

    The hash of a whole number is the number itself, because `encode_ids` may use it as a code.
    """
    if _kind_of_ids(vocabulary) == "i":
        return vocabulary.to_numpy().astype(np.uint64)
    texts = vocabulary.astype("str")
    hashes = pd.util.hash_array(texts.to_numpy(dtype=object), categorize=False)
    is_whole = np.asarray(texts.str.fullmatch("0|-?[1-9][0-9]{0,17}"), dtype=bool)
    hashes[is_whole] = texts[is_whole].astype(np.int64)
    return hashes


def codes_of(ids: Ids, vocabulary: pd.Index | None) -> Codes:
    """The code of each id in a vocabulary of `encode_ids`. It is -1 if the id is not there.

    Without a vocabulary, the codes are the ids, and an id that cannot be a code has -1.
    """
    if vocabulary is None and _kind_of_ids(ids) == "i":
        numbers = np.asarray(ids)
        is_code = (numbers >= 0) & (numbers < _CODE_LIMIT)
        return np.where(is_code, numbers, -1).astype(np.int32)
    if isinstance(ids, pd.Categorical):
        return codes_of(id_values(ids.categories), vocabulary).take(ids.codes)
    if vocabulary is None:
        return np.fromiter(map(_text_as_code, ids.tolist()), dtype=np.int32, count=len(ids))
    return _positions(ids, vocabulary).astype(np.int32)


def decode_row(codes: Codes, vocabulary: pd.Index | None) -> tuple[str, ...]:
    """The item ids of one padded row as text, without the padding."""
    return tuple(map(str, ids_of(codes[codes >= 0], vocabulary)))


def ids_of(codes: Array, vocabulary: pd.Index | None) -> list[Any]:
    """The id of each code. If equal ids were spelled differently, the first one is returned.

    Without a vocabulary, the codes are the ids.
    """
    if vocabulary is None:
        return list(codes.tolist())
    return list(vocabulary.take(codes).tolist())


def rank_by_text(codes: Array, vocabulary: pd.Index | None) -> Rows:
    """The rank of each of these distinct codes in the order of their ids as text."""
    ids = pd.Index(codes) if vocabulary is None else vocabulary.take(codes)
    ranks = np.empty(len(codes), dtype=np.intp)
    ranks[ids.astype("str").argsort()] = np.arange(len(codes))
    return ranks


def find_users(wanted: pd.Index, present: pd.Index) -> Rows:
    """The position of each wanted user in ``present``. It is -1 if the user is not there.

    The users in ``present`` must be distinct.
    """
    if present is wanted or present.equals(wanted):
        return np.arange(len(wanted), dtype=np.intp)
    if not _kind_of_ids(wanted) == _kind_of_ids(present) == "text":
        return _positions(id_values(wanted), present)
    # Both arrays are coded in one pass, because an index of text would build a hash table of Python
    # objects.
    codes, _ = pd.factorize(wanted.append(present))
    row_of = np.full(len(codes), -1, dtype=np.intp)
    row_of[codes[len(wanted) :]] = np.arange(len(present))
    return row_of[: len(wanted)]


def _kind_of_ids(ids: Ids | pd.Index) -> str:
    """``i`` if all ids are integers, ``text`` if all are text, and ``other`` otherwise."""
    if isinstance(ids.dtype, pd.StringDtype):
        return "text"
    if ids.dtype.kind == "i":
        return "i"
    return "other"


def id_values(ids: pd.Index | pd.Series) -> Ids:
    """The ids of an index, as an array of numpy or pandas."""
    return ids.to_numpy() if isinstance(ids.dtype, np.dtype) else ids.array


def _are_codes(ids: Array) -> bool:
    """Whether all ids are integers from 0 to 2**31 - 1."""
    if ids.dtype not in (np.int32, np.int64):
        return False
    # A negative number, read as an unsigned integer, is above the limit too.
    unsigned = np.uint32 if ids.dtype == np.int32 else np.uint64
    return bool(ids.view(unsigned).max(initial=0) < _CODE_LIMIT)


def _text_as_code(text: str) -> int:
    """The number that the text writes, if it can be a code. Otherwise -1."""
    if not _CODE.fullmatch(text) or int(text) >= _CODE_LIMIT:
        return -1
    return int(text)


def _recode_arm(codes: Array, shared_codes: Codes) -> Integers:
    """Replace one arm's codes by shared codes. The first arm's codes usually stay the same."""
    is_same = np.array_equal(shared_codes, np.arange(len(shared_codes)))
    if codes.dtype == np.int32 and is_same:
        return codes
    return look_up(shared_codes, codes)


def _encode_one(ids: Ids) -> tuple[Array, Ids]:
    """The codes of one arm's ids, and the distinct id of each code."""
    if isinstance(ids, pd.Categorical):
        return ids.codes, id_values(ids.categories)
    # The integers of a vocabulary always have 64 bits.
    if ids.dtype == np.int32:
        ids = np.asarray(ids, dtype=np.int64)
    values: Any = ids if isinstance(ids, np.ndarray) else pd.Series(ids, copy=False).array
    codes, distinct = pd.factorize(values)
    return codes, distinct


def _encode_vocabularies(vocabularies: Sequence[Ids]) -> tuple[list[Codes], pd.Index]:
    """The shared codes of each arm's distinct ids, and the common vocabulary of these codes.

    For example, the vocabularies ``a b`` and ``b c`` get the codes 0 1 and 1 2, and the common
    vocabulary is ``a b c``.
    """
    columns = [pd.Series(ids) for ids in vocabularies if len(ids)] or [pd.Series([], dtype="str")]
    if len({column.dtype.kind for column in columns}) > 1:
        # For example, one arm has integers from JSON, and the other arm has text from CSV.
        columns = [column.astype("str") for column in columns]
    codes, ids = _encode_one(id_values(pd.concat(columns, ignore_index=True)))
    bounds = np.cumsum(list(map(len, vocabularies)))[:-1]
    return np.split(codes.astype(np.int32), bounds), pd.Index(ids, tupleize_cols=False)


def _positions(wanted: Ids, present: pd.Index) -> Rows:
    """The position of each wanted id in ``present``. It is -1 if the id is not there.

    The ids in ``present`` must be distinct.
    """
    index: pd.Index = pd.Index(wanted)
    if not _kind_of_ids(index) == _kind_of_ids(present) == "i":
        index = index.astype("str")
        present = present.astype("str")
    return present.get_indexer(index)
