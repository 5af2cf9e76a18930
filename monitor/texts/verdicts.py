"""Writes clauses (without a full stop) about the verdicts of rules on a series."""

import math

from monitor.model.alerts import Expectation
from monitor.model.rankings import ALL
from monitor.model.rules import (
    CoverageRule,
    Direction,
    FixedLimit,
    LearnedLimit,
    Learning,
    SeriesRule,
    SimilarityRule,
)
from monitor.model.run_reasons import RunReasons
from monitor.model.statistics import (
    GAPS,
    OF_SIMILARITY,
    OUTCOME_SERIES,
    DerivedMetric,
    ListTrait,
    parse_derived,
)
from monitor.texts.run_reasons import write_lost_share
from monitor.texts.wording import count_of

_TRAITS = {
    ListTrait.MISSING: "gave no list for",
    ListTrait.EMPTY: "gave an empty list for",
    ListTrait.SHORT: "gave a list shorter than k for",
    ListTrait.DUPLICATED: "gave a list with duplicates for",
    ListTrait.FAILED: "gave no usable answer for",
    ListTrait.NOT_SERVED: "did not serve",
    ListTrait.SHARED: "gave one and the same list to",
    ListTrait.UNCHANGED: "returned an unchanged list for",
    ListTrait.EXPOSURE: "changed one item, or new items, more than other items, for",
    ListTrait.SHIFTED: "removed or inserted the first item for",
    ListTrait.REPLACED: "replaced more than four fifths of the list for",
    ListTrait.TURNED: "turned the order of the former first three items for",
    ListTrait.REVERSED: "reversed the first three items for",
    ListTrait.FIRST_DIFFERS: "put another item first for",
    ListTrait.IDENTICAL: "answers with the baseline's list for",
    ListTrait.ALIKE: "answers with nearly the baseline's list for",
    ListTrait.INTERLEAVED: "gives lists that look mixed with the baseline's for",
}
NOT_CLEARLY_NORMAL = "not clearly normal, so a firing alert does not end"
"""A note on a value that is no breach, but too near to the limit."""
_QUESTIONS = dict.fromkeys(OF_SIMILARITY, ": is the experiment applied?")


def write_value(rule: SeriesRule, value: float, users: int, segment: str, *limits: float) -> str:
    """Write the value as a clause, such as ``mean of rbo(p=0.9) is 0.512 over 690 users``.

    For a rule on coverage: ``the candidate gave no list for 34 of 690 users (4.93 %)``. Rounding
    moves no value across one of the ``limits``.
    """
    shown = format_value(*show_values(rule, value, *limits))
    among = count_users(users, segment)
    if isinstance(rule, SimilarityRule):
        if parse_derived(rule.metric).derived in GAPS:
            among += " in both arms"
        return f"{name_series(rule.metric, str(rule.statistic))} is {shown} over {among}"
    count = round(value * users)
    share = rule.share
    percent = "" if value == 1 else f" ({shown} %)"
    if share.arm is None:
        return f"{count:,} of {among} could not be compared{percent}"
    if share.trait is ListTrait.REVERSED:
        # The arms' order can be compared only for users with the same first items in both arms.
        among = f"the {among} with the same first three items"
    return f"the {share.arm} {_TRAITS[share.trait]} {count:,} of {among}{percent}"


_OUTCOMES = {
    DerivedMetric.OUTCOME: "the difference in {}",
    DerivedMetric.OUTCOME_LOW: "the lowest likely difference in {}",
    DerivedMetric.OUTCOME_HIGH: "the highest likely difference in {}",
}


def name_series(metric: str, statistic: str) -> str:
    """Name what a rule judges, such as ``mean of rbo(p=0.9)`` or ``self gap of rbo(p=0.9)``."""
    series, of_metric = parse_derived(metric)
    if series in OUTCOME_SERIES:
        return _OUTCOMES[series].format(of_metric)
    if series in GAPS:
        return f"{series.replace('_', ' ')} of {of_metric}"
    return f"{statistic} of {metric}"


def write_threshold(
    rule: SeriesRule, limit: FixedLimit, *, is_breach: bool, is_recovered: bool
) -> str:
    """Say on which side of a fixed limit the value is, such as ``below 0.6``."""
    fires, resolves = show_values(rule, limit.value, limit.resolve_at)
    unit = _unit_of(rule)
    side = limit.direction
    if is_breach and isinstance(rule, CoverageRule) and side is Direction.ABOVE:
        return f"more than the {fires:.12g}{unit} allowed{_write_question(rule)}"
    if is_breach:
        return f"{side} {fires:.12g}{unit}"
    if is_recovered:
        return f"not {side} {resolves:.12g}{unit}"
    return (
        f"not {side} {fires:.12g}{unit} but still {side} {resolves:.12g}{unit}, where the alert "
        "resolves"
    )


def write_normal(
    rule: SeriesRule,
    limit: LearnedLimit,
    value: float,
    expectation: Expectation,
    *,
    is_breach: bool,
    is_judgeable: bool,
) -> tuple[str, str]:
    """Say how the value compares with what is normal, and add a note. The note may be empty."""
    value, most, expected = show_values(
        rule, value, expectation.limit or 0.0, expectation.expected or 0.0
    )
    unit = _unit_of(rule)
    runs = f"after {expectation.runs} healthy runs"
    is_below = limit.direction is Direction.BELOW
    note = f"{expected:.3g}{unit} was expected {runs}"
    if limit.learning is Learning.TREND:
        return _write_trend("fall" if is_below else "rise", expectation, is_breach=is_breach), note
    if not is_judgeable:
        side = "lower" if is_below else "higher"
        note = f"this rule cannot judge: {runs} no possible value is {side} than normal"
        return f"normally {expected:.3g}{unit}", note
    end = "least" if is_below else "most"
    # Rounding must not move the value across the limit.
    bound = f"{format_value(most, float(format_value(value, most)))}{unit}"
    if isinstance(rule, CoverageRule):
        question = _write_question(rule) if is_breach else ""
        return f"normally {expected:.3g} %, at {end} {bound} ({runs}){question}", ""
    position = limit.direction if is_breach else f"not {limit.direction}"
    return f"{position} {bound}, the {end} that is normal", note


def _write_trend(drift: str, expectation: Expectation, *, is_breach: bool) -> str:
    evidence = expectation.evidence or 0.0
    limit = expectation.evidence_limit or math.inf
    if is_breach:
        times = format_value(evidence / limit, 1.0)
        return f"after a {drift} over several runs (evidence is {times} times the limit)"
    return f"no lasting {drift} so far (evidence {evidence:,.3g}, limit {limit:,.3g})"


def write_breach(
    rule: SeriesRule, shown: str, finding: str, counts: tuple[int, int], reasons: RunReasons
) -> tuple[str, str]:
    """Write the reason for a breach, and its headline.

    The reason has the value as ``shown`` and the ``finding``. Failures of the run cause ``failed``
    and ``unpaired`` users. So the texts of a rule on such users have the run's ``reasons`` too.
    ``counts`` are the numbers of these users and of all users that were asked for.
    """
    sentence = f"{shown}, {finding}"
    if not reasons or not isinstance(rule, CoverageRule):
        return sentence, sentence
    if rule.share.trait not in (ListTrait.FAILED, ListTrait.UNPAIRED):
        return sentence, sentence
    reason, headline = write_lost_share(shown, rule.share.arm, counts, reasons)
    return f"{reason}; {finding}", headline


def show_values(rule: SeriesRule, *values: float) -> tuple[float, ...]:
    """Convert values of the rule's series for texts. Shares of users become per cent."""
    if isinstance(rule, SimilarityRule):
        return values
    # Rounding removes the error in the last digits.
    return tuple(round(100 * value, 12) for value in values)


def format_value(value: float, *limits: float) -> str:
    """Round a value to three figures, or to more figures if it would cross a limit."""
    for figures in range(3, 17):
        rounded = f"{value:.{figures}g}"
        if all(_side_of(float(rounded), limit) == _side_of(value, limit) for limit in limits):
            return rounded
    return repr(value)


def count_users(count: int, segment: str) -> str:
    """Write the number of users and their segment, such as ``1,874 users of country=UK``."""
    return f"{count_of(count, 'user')}{of_segment(segment)}"


def of_segment(segment: str) -> str:
    """Write ``" of country=UK"`` for a segment, and nothing for all users."""
    return "" if segment == ALL else f" of {segment}"


def _unit_of(rule: SeriesRule) -> str:
    return "" if isinstance(rule, SimilarityRule) else " %"


def _side_of(value: float, limit: float) -> int:
    return (value > limit) - (value < limit)


def _write_question(rule: CoverageRule) -> str:
    """Return the first question to ask about lists of this kind."""
    return _QUESTIONS.get(rule.share.trait, "")
