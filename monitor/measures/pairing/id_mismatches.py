"""Finds why the arms have hardly any id in common, and which spelling makes the ids equal."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from monitor.measures.kernels.item_codes import distinct_items
from monitor.measures.pairing.batches import CodedLists
from monitor.measures.pairing.ids import ids_of
from monitor.measures.reading.text_order import count_same_start
from monitor.model.arrays import Integers
from monitor.model.id_forms import make_speller
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm
from monitor.model.run_reasons import IdKind, IdMismatch, MismatchKind

LEAST_COMMON_SHARE = 0.05
"""If the arms have a smaller share of ids in common, a mismatch is reported.

It is the share of the distinct ids of the arm with fewer ids. Real arms share 0.55 or more
(drift-lists, 13 arms, 14 days).
"""
_LEAST_MATCH = 0.1
"""A spelling is proposed only if at least this share of the tried ids is then in both arms."""
_LEAST_LISTS = 10
"""A mismatch of an unknown kind is reported only if each arm has this many lists.

Fewer lists may have no item in common by chance. The lists of two random users have no item in
common in 4 to 29 % of the cases.
"""
_TRIED = 1_000
_SEARCHED = 100_000
_FIRST_CHECKED = 1_000
"""How many items and lists the quick first check reads.

The check takes less than a millisecond if the arms share many ids.
"""
_LEAST_FILLED = 0.01
_FILLERS = frozenset({"-1", "None", "null", "nan", "NaN", "<pad>"})
"""These items are reported as padding even if only one list ends with one of them twice.

Any other item is reported only if at least `_LEAST_LISTS` lists end with it twice.
"""

_PREFIX = re.compile(r"[^\W\d_]+([^\w\s]+|_|(?=\d))")
_PAIR = re.compile(r"""[(\[]\s*(["']?)(.+?)\1\s*,\s*[-+]?[0-9.]+(?:e[-+]?[0-9]+)?\s*[)\]]""")
_LONGEST_PAIR = 400
"""Longer texts are not matched with `_PAIR`, because the time grows with the square of the length.
"""
_QUOTED = {"regex": "b?['\"](.*)['\"]"}
_NUMBER = re.compile(r"[-+]?\d+")
_NO_LETTERS = re.compile(r"[\W_]+")


@immutable
class _Respelling:
    """Another spelling of ids.

    ``forms`` are the entries of the setting `item_ids` that rewrite ids in this spelling. They are
    empty if the setting cannot rewrite ids in this way.
    """

    kind: MismatchKind
    spell: Callable[[object], str]
    forms: Sequence[str | Mapping[str, str]] = ()


@dataclass(slots=True)
class IdComparison:
    """Compares the items of both arms in each batch.

    - ``batches`` is the number of batches that were compared.
    - ``mismatched`` is the number of batches in which the ids do not match.
    - ``spelling`` is the mismatch of the first such batch.
    - ``padding`` is the item that pads lists, with counts over all batches.
    """

    batches: int = 0
    mismatched: int = 0
    spelling: IdMismatch | None = None
    padding: IdMismatch | None = None

    def add(
        self,
        arms: Sequence[CodedLists],
        vocabulary: pd.Index | None,
        k: int | None = None,
    ) -> None:
        """Compare the next batch.

        The items are compared only if no earlier batch has many items in common in both arms. The
        padding is searched in every batch, in whole lists if ``k`` is None. Without a vocabulary,
        the codes are the ids.
        """
        if not all(len(arm.codes) for arm in arms):
            return
        batch = IdComparison(batches=1, padding=_find_padding(arms, vocabulary, k))
        if self.mismatched == self.batches:
            batch.spelling = _compare_items(arms, vocabulary, self.spelling)
            batch.mismatched = int(batch.spelling is not None)
        self.merge(batch)

    def merge(self, other: "IdComparison") -> None:
        """Add the batches of another comparison."""
        self.batches += other.batches
        self.mismatched += other.mismatched
        self.spelling = self.spelling or other.spelling
        if self.padding is None or other.padding is None:
            self.padding = self.padding or other.padding
        else:
            self.padding = replace(
                self.padding,
                common=self.padding.common + other.padding.common,
                compared=self.padding.compared + other.padding.compared,
            )

    @property
    def mismatches(self) -> tuple[IdMismatch, ...]:
        """The mismatch of item ids, if every batch has it, and the padding in all batches."""
        spelling = self.spelling if self.mismatched == self.batches else None
        return tuple(filter(None, (spelling, self.padding)))


def _compare_items(
    arms: Sequence[CodedLists],
    vocabulary: pd.Index | None,
    earlier: IdMismatch | None,
) -> IdMismatch | None:
    """Why the arms have hardly any item in common. None if they share many items.

    ``earlier`` is the mismatch of an earlier batch. It is returned again, because another search
    would take long.
    """
    # The first items are enough for most batches, and take less time.
    ours_first, theirs_first = (set(arm.codes[:_FIRST_CHECKED].tolist()) for arm in arms)
    least = LEAST_COMMON_SHARE * min(len(ours_first), len(theirs_first))
    if len(ours_first & theirs_first) >= least:
        return None
    ours, theirs = (distinct_items(arm.codes) for arm in arms)
    common = np.intersect1d(ours, theirs, assume_unique=True)
    if len(common) >= LEAST_COMMON_SHARE * min(len(ours), len(theirs)):
        return None
    if earlier is not None:
        return earlier
    lists = min(len(arm.lengths) for arm in arms)
    return find_mismatch(
        ids_of(ours, vocabulary),
        ids_of(theirs, vocabulary),
        IdKind.ITEM,
        common=len(common),
        has_many_lists=lists >= _LEAST_LISTS,
    )


def find_user_mismatch(baseline: pd.Index, candidate: pd.Index) -> IdMismatch | None:
    """Why the arms have hardly any of these distinct users in common.

    The result is None if the arms share many users, or if an arm has no users.
    """
    common = int(baseline.isin(candidate).sum())
    if common >= LEAST_COMMON_SHARE * min(len(baseline), len(candidate)):
        return None
    return find_mismatch(
        baseline.tolist(),
        candidate.tolist(),
        IdKind.USER,
        common=common,
        has_many_lists=True,
    )


def find_mismatch(
    baseline: Sequence[object],
    candidate: Sequence[object],
    ids: IdKind,
    *,
    common: int,
    has_many_lists: bool,
) -> IdMismatch | None:
    """Find the spelling that makes the largest number of these distinct ids equal.

    The search takes up to 1,000 ids of the smaller arm and up to 100,000 ids of the larger arm. If
    no spelling makes more ids equal, the kind of the result is UNKNOWN. ``has_many_lists`` is False
    if the arms have so few lists that they may have no id in common by chance. Then None is
    returned instead of UNKNOWN, unless only one arm's ids are numbers.
    """
    ours = _select_evenly(baseline)
    theirs = _select_evenly(candidate)
    few, many = sorted((ours, theirs), key=len)
    few = few[:: max(1, len(few) // _TRIED)][:_TRIED]
    best = None
    most = _count_matches(str, few, many)
    least = max(most + 1, _LEAST_MATCH * len(few))
    for respelling in _propose_respellings(list(map(str, few)), list(map(str, many))):
        count = _count_matches(respelling.spell, few, many)
        if count >= least:
            best = respelling
            most = count
            least = count + 1
    compared = min(len(baseline), len(candidate))
    if best is not None and best.kind is MismatchKind.SEVERAL:
        best = _leave_out_forms(best, few, many, most)
    if best is None:
        may_be_chance = not has_many_lists and _are_numbers(ours) == _are_numbers(theirs)
        if may_be_chance:
            return None
        return IdMismatch(
            kind=MismatchKind.UNKNOWN,
            ids=ids,
            common=common,
            compared=compared,
            examples=(str(ours[0]), str(theirs[0])),
        )
    all_ids = candidate if many is theirs else baseline
    if len(all_ids) > len(many):
        most = _count_matches(best.spell, few, all_ids)
    examples = _find_examples(best, ours, theirs)
    return IdMismatch(
        kind=_refine_kind(best.kind, examples),
        ids=ids,
        common=common,
        compared=compared,
        would_match=most,
        tried=len(few),
        forms=tuple(map(_write_form, best.forms)),
        examples=examples,
    )


def _count_matches(
    spell: Callable[[object], str],
    few: Sequence[object],
    many: Sequence[object],
) -> int:
    """How many of the few ids are equal to one of the many ids, if all are spelled by ``spell``."""
    spelled = set(map(spell, many))
    return sum(spell(one_id) in spelled for one_id in few)


def _leave_out_forms(
    respelling: _Respelling,
    few: Sequence[object],
    many: Sequence[object],
    most: int,
) -> _Respelling:
    """Leave out each form that makes no more ids equal. ``most`` ids are equal with all forms."""
    for form in respelling.forms:
        forms = [other for other in respelling.forms if other is not form]
        spell = _spell_by(forms)
        if _count_matches(spell, few, many) >= most:
            respelling = replace(respelling, forms=forms, spell=spell)
    return respelling


def _are_numbers(ids: Sequence[object]) -> bool:
    return all(_NUMBER.fullmatch(str(one_id)) for one_id in ids[:_TRIED])


def _select_evenly(ids: Sequence[object]) -> Sequence[object]:
    """At most `_SEARCHED` of the ids, evenly spaced."""
    step = math.ceil(len(ids) / _SEARCHED)
    return ids[::step]


def _propose_respellings(few: Sequence[str], many: Sequence[str]) -> Iterator[_Respelling]:
    """Other spellings, the simplest first.

    If two spellings make the same number of ids equal, the first one is proposed.
    """
    step = max(1, len(many) // _TRIED)
    stripped_ids = [list(map(str.strip, ids)) for ids in (few, many[::step])]
    # Equal prefixes of both arms are used once.
    starts = dict.fromkeys(filter(None, map(_usual_prefix, stripped_ids)))
    ends = dict.fromkeys(filter(None, map(_usual_suffix, stripped_ids)))
    prefixes = [{"prefix": start} for start in starts]
    suffixes = [{"regex": f"(.+){re.escape(end)}"} for end in ends]
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
            yield _Respelling(kind=kind, spell=_spell_by(forms), forms=forms)
    yield _Respelling(kind=MismatchKind.SEPARATORS, spell=_spell_without_separators)
    yield _Respelling(kind=MismatchKind.PAIRS, spell=_spell_first)


def _spell_by(forms: Sequence[str | Mapping[str, str]]) -> Callable[[object], str]:
    """A function that spells an id by these forms. An id that they do not fit stays the same."""
    spell = make_speller(forms)

    def spell_one(item: object) -> str:
        text = str(item)
        return spell([text])[0] or text

    return spell_one


def _spell_without_separators(item: object) -> str:
    return _NO_LETTERS.sub("", str(item)).lower() or str(item)


def _spell_first(item: object) -> str:
    """The first value of a pair. An id that is no pair is returned as text."""
    if isinstance(item, tuple) and item:
        return str(item[0])
    text = str(item)
    if len(text) > _LONGEST_PAIR:
        return text
    pair = _PAIR.fullmatch(text)
    if pair is None:
        return text
    return pair[2]


def _usual_prefix(ids: Sequence[str]) -> str | None:
    """The prefix that all ids have, up to the last separator in the prefix.

    If there is none, this is a prefix of letters that at least half of the ids have. None without
    such a prefix.
    """
    start = re.match(r"(?s).*[\W_]", _common_start(ids))
    if start and start[0].strip():
        return start[0]
    prefixes = Counter(match[0] for match in map(_PREFIX.match, ids) if match)
    for prefix, count in prefixes.most_common(1):
        if 2 * count >= len(ids):
            return prefix
    return None


def _usual_suffix(ids: Sequence[str]) -> str | None:
    """The suffix that all ids have, from the first separator in the suffix.

    None if the suffix has no separator, or if nothing but white space begins there.
    """
    common_end = _common_start([one_id[::-1] for one_id in ids])[::-1]
    end = re.search(r"(?s)[\W_].*", common_end)
    if end and end[0].strip():
        return end[0]
    return None


def _common_start(texts: Sequence[str]) -> str:
    """The longest prefix that all these distinct texts have. It is empty for a single text."""
    if len(texts) < 2:  # noqa: PLR2004 - one id has no common prefix
        return ""
    first = min(texts)
    # A prefix of the first and the last text is a prefix of each text between them.
    return first[: count_same_start(first, max(texts))]


def _find_examples(
    respelling: _Respelling,
    ours: Sequence[object],
    theirs: Sequence[object],
) -> tuple[str, str]:
    """An example: an id of the baseline, and an id of the candidate.

    The two ids are equal if they are spelled by ``respelling``. Among the first ids, an example
    with two different spellings is preferred.
    """
    by_spelling = {respelling.spell(one_id): str(one_id) for one_id in theirs}
    same_ids: list[str] = []
    for one_id in ours:
        other = by_spelling.get(respelling.spell(one_id))
        if other is None:
            continue
        if other != str(one_id):
            return str(one_id), other
        same_ids.append(other)
        if len(same_ids) == _TRIED:
            break
    return same_ids[0], same_ids[0]


def _refine_kind(kind: MismatchKind, examples: tuple[str, str]) -> MismatchKind:
    """A more exact kind, if the examples show it."""
    if kind is MismatchKind.TYPE and not any("." in example for example in examples):
        return MismatchKind.LEADING_ZEROS
    if kind is MismatchKind.QUOTES and any(example.startswith("b") for example in examples):
        return MismatchKind.BYTES
    return kind


def _write_form(form: str | Mapping[str, str]) -> str:
    if isinstance(form, str):
        return form
    ((name, text),) = form.items()
    return f"{{{name}: {json.dumps(text, ensure_ascii=False)}}}"


def _find_padding(
    arms: Sequence[CodedLists],
    vocabulary: pd.Index | None,
    k: int | None,
) -> IdMismatch | None:
    """The item that pads the most lists, or None if it pads too few lists to be reported."""
    if not any(len(_find_fillers(lists, k, _FIRST_CHECKED)) for lists in arms):
        return None
    counts = {}
    lists_of_arm = {}
    for arm, lists in zip(Arm, arms, strict=True):
        counts[arm] = Counter(_find_fillers(lists, k).tolist())
        lists_of_arm[arm] = len(lists.lengths)
    both = counts[Arm.BASELINE] + counts[Arm.CANDIDATE]
    ((code, padded_lists),) = both.most_common(1)
    item = str(ids_of(np.array([code]), vocabulary)[0])
    compared = sum(lists_of_arm.values())
    least = _LEAST_LISTS
    if item in _FILLERS:
        least = 1
    if padded_lists < max(least, _LEAST_FILLED * compared):
        return None
    only_arm = None
    for arm in Arm:
        if not counts[arm.other][code]:
            only_arm = arm
            compared = lists_of_arm[arm]
    return IdMismatch(
        kind=MismatchKind.PADDING,
        ids=IdKind.ITEM,
        common=padded_lists,
        compared=compared,
        examples=(item, item),
        arm=only_arm,
    )


def _find_fillers(lists: CodedLists, k: int | None, most_lists: int | None = None) -> Integers:
    """The last item of each list that ends with the same item twice.

    Lists are cut to k, if it is given. Only the first ``most_lists`` lists are searched, or all.
    """
    starts = lists.offsets[:-1][:most_lists]
    ends = lists.offsets[1:][:most_lists]
    if k is not None:
        ends = np.minimum(ends, starts + k)
    last_cells = ends[ends - starts > 1] - 1
    last_items = lists.codes[last_cells]
    fillers: Integers = last_items[last_items == lists.codes[last_cells - 1]]
    return fillers
