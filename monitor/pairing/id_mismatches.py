"""Finds out why hardly any id of one arm is in the other: in which other spelling they would meet."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from monitor.kernels.exposure import distinct_items
from monitor.model.arrays import Integers
from monitor.model.id_forms import speller
from monitor.model.id_mismatches import IdKind, IdMismatch, MismatchKind
from monitor.model.rankings import Arm
from monitor.pairing.batches import CodedLists
from monitor.pairing.ids import ids_of

LEAST_COMMON = 0.05
"""Share of the distinct ids of the smaller arm.

Real arms have 0.55 or more (drift-lists, 13 arms, 14 days).
"""
_LEAST_MATCH = 0.1
"""Share of the ids tried that must meet in another spelling before it is proposed."""
_LEAST_LISTS = 10
"""Lists of an arm.

Of fewer, unrelated ones are no news: two users' lists share no item in 4 to 29 % of the cases.
"""
_TRIED = 1_000
_SEARCHED = 100_000
_FIRST = 1_000
"""So many items, and lists, tell mostly that nothing is odd: an arm that is in order costs less than a millisecond."""
_LEAST_FILLED = 0.01
_FILLERS = frozenset({"-1", "None", "null", "nan", "NaN", "<pad>"})
"""Items that fill up even a single list; any other item must fill up `_LEAST_LISTS`."""

_PREFIX = re.compile(r"[^\W\d_]+([^\w\s]+|_|(?=\d))")
_PAIR = re.compile(r"""[(\[]\s*(["']?)(.+?)\1\s*,\s*[-+]?[0-9.]+(?:e[-+]?[0-9]+)?\s*[)\]]""")
_LONGEST_PAIR = 400
"""A longer text is no id with a score. The expression takes quadratic time."""
_QUOTED = {"regex": "b?['\"](.*)['\"]"}
_NUMBER = re.compile(r"[-+]?\d+")
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """Another spelling of ids: what it takes away from them, and the forms that do so where there are any."""

    kind: MismatchKind
    spell: Callable[[object], str]
    forms: Sequence[str | Mapping[str, str]] = ()


class IdComparison:
    """What is odd about the items of both arms, mostly nothing, over batches that come one after the other."""

    def __init__(self) -> None:
        self.batches: list[tuple[IdMismatch, ...]] = []

    def add(
        self, arms: Sequence[CodedLists], vocabulary: pd.Index | None, k: int | None = None
    ) -> None:
        """Take the next batch.

        Costs a look at the first lists. All lists are counted only where these have little in
        common, and another spelling is searched only until one batch has been searched or has many
        items in both arms."""
        if not all(len(arm.codes) for arm in arms):
            return
        is_alike = any(not _spellings(batch) for batch in self.batches)
        known = _spellings(self.batches[0]) if self.batches else []
        items = () if is_alike else _compare_items(arms, vocabulary, known)
        self.batches.append((*items, *_find_padding(arms, vocabulary, k)))

    @property
    def mismatches(self) -> tuple[IdMismatch, ...]:
        """Ids that meet in none of the batches, and padding of all lists together."""
        spellings = [_spellings(batch) for batch in self.batches]
        found = spellings[0] if spellings and all(spellings) else []
        padding = [
            each for batch in self.batches for each in batch if each.kind is MismatchKind.PADDING
        ]
        if padding:
            times, lists = (
                sum(each.common for each in padding),
                sum(each.compared for each in padding),
            )
            found = [*found, replace(padding[0], common=times, compared=lists)]
        return tuple(found)


def _spellings(batch: Sequence[IdMismatch]) -> list[IdMismatch]:
    return [each for each in batch if each.kind is not MismatchKind.PADDING]


def _compare_items(
    arms: Sequence[CodedLists], vocabulary: pd.Index | None, known: Sequence[IdMismatch]
) -> Iterator[IdMismatch]:
    """Why hardly any item is in both arms: as ``known`` of an earlier batch, else searched."""
    first, others = (set(arm.codes[:_FIRST].tolist()) for arm in arms)
    if len(first & others) >= LEAST_COMMON * min(len(first), len(others)):
        return
    ours, theirs = (distinct_items(arm.codes) for arm in arms)
    common = np.intersect1d(ours, theirs, assume_unique=True)
    if len(common) >= LEAST_COMMON * min(len(ours), len(theirs)):
        return
    if known:
        yield known[0]
        return
    ids = [ids_of(codes, vocabulary) for codes in (ours, theirs)]
    lists = min(len(arm.lengths) for arm in arms)
    found = find_mismatch(
        ids[0], ids[1], IdKind.ITEM, common=len(common), is_many=lists >= _LEAST_LISTS
    )
    if found is not None:
        yield found


def find_user_mismatch(baseline: pd.Index, candidate: pd.Index) -> IdMismatch | None:
    """Why hardly any of these distinct users is in both arms.

    None where more are, or an arm has none.
    """
    common = int(baseline.isin(candidate).sum())
    if common >= LEAST_COMMON * min(len(baseline), len(candidate)):
        return None
    return find_mismatch(
        baseline.tolist(), candidate.tolist(), IdKind.USER, common=common, is_many=True
    )


def find_mismatch(
    baseline: Sequence[object],
    candidate: Sequence[object],
    ids: IdKind,
    *,
    common: int,
    is_many: bool,
) -> IdMismatch | None:
    """The spelling in which most of these distinct ids would meet.

    None where none helps and there are not many.

    Tries a thousand ids of the smaller arm against all of the other, up to a hundred thousand.
    """
    ours, theirs = _thin(baseline), _thin(candidate)
    few, many = sorted((ours, theirs), key=len)
    few = few[:: max(1, len(few) // _TRIED)][:_TRIED]
    known = set(map(str, many))
    best, most = None, sum(str(each) in known for each in few)
    least = max(most + 1, _LEAST_MATCH * len(few))
    for attempt in _attempts(list(map(str, few)), list(map(str, many))):
        count = _count_matches(attempt, few, many)
        if count >= least:
            best, most, least = attempt, count, count + 1
    compared = min(len(baseline), len(candidate))
    if best is not None and best.kind is MismatchKind.SEVERAL:
        best = _leave_out_forms(best, few, many, most)
    if best is None:
        if not is_many and _are_numbers(ours) == _are_numbers(theirs):
            return None
        return IdMismatch(
            kind=MismatchKind.UNKNOWN,
            ids=ids,
            common=common,
            compared=compared,
            examples=(str(ours[0]), str(theirs[0])),
        )
    examples = _find_examples(best, ours, theirs)
    return IdMismatch(
        kind=_name(best.kind, examples),
        ids=ids,
        common=common,
        compared=compared,
        would_match=most,
        tried=len(few),
        forms=tuple(map(_write_form, best.forms)),
        examples=examples,
    )


def _count_matches(attempt: _Attempt, few: Sequence[object], many: Sequence[object]) -> int:
    spelled = set(map(attempt.spell, many))
    return sum(attempt.spell(each) in spelled for each in few)


def _leave_out_forms(
    attempt: _Attempt, few: Sequence[object], many: Sequence[object], most: int
) -> _Attempt:
    """The attempt with only those of its forms without which fewer ids meet."""
    for form in attempt.forms:
        forms = [each for each in attempt.forms if each is not form]
        shorter = replace(attempt, forms=forms, spell=_spell_by(forms))
        if _count_matches(shorter, few, many) >= most:
            attempt = shorter
    return attempt


def _are_numbers(ids: Sequence[object]) -> bool:
    return all(_NUMBER.fullmatch(str(each)) for each in ids[:_TRIED])


def _thin(ids: Sequence[object]) -> Sequence[object]:
    return ids[:: -(-len(ids) // _SEARCHED)]


def _attempts(few: Sequence[str], many: Sequence[str]) -> Iterator[_Attempt]:
    """Other spellings, the simplest first: of two that help as much the first is proposed."""
    sides = [[each.strip() for each in ids] for ids in (few, many[:: max(1, len(many) // _TRIED)])]
    prefixes = [
        {"prefix": text}
        for text in dict.fromkeys(text for side in sides for text in _usual_prefixes(side))
    ]
    suffixes = [
        {"regex": f"(.+){re.escape(text)}"}
        for text in dict.fromkeys(filter(None, map(_usual_suffix, sides)))
    ]
    by_forms: list[tuple[MismatchKind, list[str | dict[str, str]]]] = [
        (MismatchKind.BLANKS, ["strip"]),
        (MismatchKind.CASE, ["lower"]),
        (MismatchKind.TYPE, ["int"]),
        (MismatchKind.QUOTES, [_QUOTED]),
        (MismatchKind.PREFIX, [*prefixes]),
        (MismatchKind.SUFFIX, [*suffixes]),
        (MismatchKind.SEVERAL, ["strip", "lower", "int"]),
        (MismatchKind.SEVERAL, ["strip", *prefixes, *suffixes, "lower", "int"]),
    ]
    for kind, forms in by_forms:
        if forms:
            yield _Attempt(kind=kind, spell=_spell_by(forms), forms=forms)
    yield _Attempt(kind=MismatchKind.SEPARATORS, spell=_spell_without_separators)
    yield _Attempt(kind=MismatchKind.PAIRS, spell=_spell_first)


def _spell_by(forms: Sequence[str | Mapping[str, str]]) -> Callable[[object], str]:
    spell = speller(forms)

    def spell_one(each: object) -> str:
        text = str(each)
        return spell([text])[0] or text

    return spell_one


def _spell_without_separators(each: object) -> str:
    return _NO_LETTERS.sub("", str(each)).lower() or str(each)


def _spell_first(each: object) -> str:
    """The first of a pair, else the id."""
    if isinstance(each, tuple) and each:
        return str(each[0])
    text = str(each)
    pair = _PAIR.fullmatch(text) if len(text) <= _LONGEST_PAIR else None
    return pair[2] if pair else text


def _usual_prefixes(ids: Sequence[str]) -> Iterator[str]:
    """What all ids begin with before a separator or a number, else what most begin with."""
    same = _common_start(ids)
    start = re.match(r"(?s).*[\W_]", same)
    if start and start[0].strip():
        yield start[0]
        return
    counts = Counter(match[0] for each in ids if (match := _PREFIX.match(each)))
    yield from (text for text, count in counts.most_common(1) if 2 * count >= len(ids))


def _usual_suffix(ids: Sequence[str]) -> str | None:
    """What all ids end with, from its first separator on."""
    same = _common_start([each[::-1] for each in ids])[::-1]
    end = re.search(r"(?s)[\W_].*", same)
    return end[0] if end and end[0].strip() else None


def _common_start(texts: Sequence[str]) -> str:
    """The longest text that all of several distinct texts begin with."""
    if len(texts) < 2:  # noqa: PLR2004 - one id says nothing about others
        return ""
    first, last = min(texts), max(texts)
    same = next(
        (n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other),
        len(first),
    )
    return first[:same]


def _find_examples(
    attempt: _Attempt, ours: Sequence[object], theirs: Sequence[object]
) -> tuple[str, str]:
    """An id of each arm, spelled otherwise in the other."""
    spelled = {attempt.spell(each): str(each) for each in theirs}
    met = ((str(each), spelled[key]) for each in ours if (key := attempt.spell(each)) in spelled)
    pairs = [pair for pair, _ in zip(met, range(_TRIED), strict=False)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


def _name(kind: MismatchKind, examples: tuple[str, str]) -> MismatchKind:
    if kind is MismatchKind.TYPE and not any("." in each for each in examples):
        return MismatchKind.LEADING_ZEROS
    if kind is MismatchKind.QUOTES and any(each.startswith("b") for each in examples):
        return MismatchKind.BYTES
    return kind


def _write_form(form: str | Mapping[str, str]) -> str:
    if isinstance(form, str):
        return form
    ((name, text),) = form.items()
    return f"{{{name}: {json.dumps(text, ensure_ascii=False)}}}"


def _find_padding(
    arms: Sequence[CodedLists], vocabulary: pd.Index | None, k: int | None
) -> Iterator[IdMismatch]:
    """The item that fills the ends of most lists, where it fills many."""
    if not any(len(_fillers(lists, k, _FIRST)) for lists in arms):
        return
    counts = {
        arm: Counter(_fillers(lists, k).tolist()) for arm, lists in zip(Arm, arms, strict=True)
    }
    both = counts[Arm.BASELINE] + counts[Arm.CANDIDATE]
    ((code, times),) = both.most_common(1)
    item = str(ids_of(np.array([code]), vocabulary)[0])
    numbers = {arm: len(lists.lengths) for arm, lists in zip(Arm, arms, strict=True)}
    least = 1 if item in _FILLERS else _LEAST_LISTS
    if times < max(least, _LEAST_FILLED * sum(numbers.values())):
        return
    alone = next((arm for arm in Arm if not counts[arm.other][code]), None)
    yield IdMismatch(
        kind=MismatchKind.PADDING,
        ids=IdKind.ITEM,
        common=times,
        compared=sum(numbers.values()) if alone is None else numbers[alone],
        examples=(item, item),
        arm=alone,
    )


def _fillers(lists: CodedLists, k: int | None, first: int | None = None) -> Integers:
    """The last item of each of the first lists in which it stands twice at the end."""
    starts, ends = lists.offsets[:-1][:first], lists.offsets[1:][:first]
    if k is not None:
        ends = np.minimum(ends, starts + k)
    ends = ends[ends - starts > 1] - 1
    last = lists.codes[ends]
    filled: Integers = last[last == lists.codes[ends - 1]]
    return filled
