"""Writes about ids that do not match, and about the setting that makes them match."""

import shlex
from collections.abc import Mapping
from enum import StrEnum

from monitor.model.run_reasons import IdKind, IdMismatch, MismatchKind
from monitor.texts.wording import count_of, shorten_to

_LONGEST_EXAMPLE = 40
_DIFFERENCES: Mapping[MismatchKind, str] = {
    MismatchKind.BLANKS: "the ids differ in blanks",
    MismatchKind.CASE: "the ids differ in upper and lower case",
    MismatchKind.LEADING_ZEROS: "the ids differ in leading zeros",
    MismatchKind.TYPE: "the ids differ in their type",
    MismatchKind.BYTES: "the ids of an arm are bytes written as text",
    MismatchKind.QUOTES: "the ids differ in quotation marks",
    MismatchKind.PREFIX: "the ids differ in their prefix",
    MismatchKind.SUFFIX: "the ids differ in their suffix",
    MismatchKind.SEPARATORS: "the ids differ in separators or case",
    MismatchKind.PAIRS: "the items of an arm are pairs of an item and a score",
    MismatchKind.SEVERAL: "the ids differ in several ways",
    MismatchKind.UNKNOWN: "the ids look unrelated",
}


class Surface(StrEnum):
    """Where the reader can change how rankwatch reads ids."""

    CONFIGURATION = "configuration"
    COMMAND = "command"
    PYTHON = "python"


def write_mismatch(mismatch: IdMismatch, surface: Surface = Surface.CONFIGURATION) -> str:
    """Say what does not match, with examples, and what to do. The end has no full stop."""
    if mismatch.kind is MismatchKind.PADDING:
        return _write_padding(mismatch, surface)
    difference = f"{_DIFFERENCES[mismatch.kind]}{write_examples(mismatch)}"
    advice = _write_advice(mismatch, surface)
    return f"{_write_common(mismatch)}: {difference}. {advice[:1].upper()}{advice[1:]}"


def write_matching(ids: IdKind, matching: int, of: int, users: int) -> str:
    """Say how many users match, or how many items in the lists of this number of ``users``."""
    if ids is IdKind.USER:
        return f"{matching:,} of {of:,} users of the baseline are in both arms"
    return f"{matching:,} of {of:,} items in the lists of {count_of(users, 'user')} match"


def write_examples(mismatch: IdMismatch) -> str:
    """Write examples: ``, such as '42' in the baseline and '42.0' in the candidate``.

    Empty if examples are hidden.
    """
    if mismatch.examples is None:
        return ""
    first, second = map(_quote, mismatch.examples)
    sides = ("in the baseline", "in the candidate")
    if mismatch.arm is not None:
        sides = ("among the users", f"in the {mismatch.arm}")
    return f", such as {first} {sides[0]} and {second} {sides[1]}"


def write_user_spelling(mismatch: IdMismatch) -> str:
    """Write ``has other ids for users, such as 'U1' for 'u1'``. The caller names the arm."""
    if mismatch.examples is None:
        return "has other ids for users"
    panel_id, arm_id = map(_quote, mismatch.examples)
    return f"has other ids for users, such as {arm_id} for {panel_id}"


def write_setting(mismatch: IdMismatch, surface: Surface = Surface.CONFIGURATION) -> str:
    """Say what to do so that the ids match. Usually this is a setting."""
    forms = ", ".join(mismatch.forms)
    if surface is Surface.COMMAND:
        return f"add --{mismatch.ids}-ids {shlex.quote(f'[{forms}]')}"
    if surface is Surface.PYTHON:
        return f"spell the ids alike, or use a configuration with {mismatch.ids}_ids: [{forms}]"
    whom = "both arms"
    if mismatch.ids is IdKind.USER:
        whom += ", and for users if they have a source of their own"
    return f"set {mismatch.ids}_ids: [{forms}] for {whom}"


def _write_common(mismatch: IdMismatch) -> str:
    if mismatch.arm is not None:
        return f"the {mismatch.arm} has {mismatch.common:,} of {mismatch.compared:,} users"
    if mismatch.common == 0:
        return f"no {mismatch.ids} is in both arms"
    return f"only {mismatch.common:,} of {mismatch.compared:,} {mismatch.ids}s are in both arms"


def _write_advice(mismatch: IdMismatch, surface: Surface) -> str:
    if mismatch.kind is MismatchKind.PAIRS:
        if surface is Surface.PYTHON:
            return "pass the items without their scores, and pass the scores as scores="
        return "give the items without their scores, and name the scores separately"
    if mismatch.kind is MismatchKind.UNKNOWN:
        return f"check that both sides mean the same {mismatch.ids}s, and spell their ids alike"
    match = f"then {mismatch.would_match:,} of {mismatch.tried:,} match"
    if not mismatch.forms:
        return f"spell the ids alike: {match}"
    return f"{write_setting(mismatch, surface)}: {match}"


def _write_padding(mismatch: IdMismatch, surface: Surface) -> str:
    what = "one item"
    value = "..."
    if mismatch.examples is not None:
        value = mismatch.examples[0]
        what = f"item {_quote(value)}"
    arm = "" if mismatch.arm is None else f" of the {mismatch.arm}"
    setting = {
        Surface.CONFIGURATION: f"set no_item: [{value}]",
        Surface.COMMAND: f"add --no-item={value}",
        Surface.PYTHON: f"pass no_item=[{value}]",
    }[surface]
    lists = f"{mismatch.common:,} of {mismatch.compared:,} lists{arm}"
    return f"{what} fills the end of {lists}. If it means no item, {setting}"


def _quote(example: str) -> str:
    return shorten_to(repr(example), _LONGEST_EXAMPLE)
