"""What one rule on coverage says of one segment in one run."""

from __future__ import annotations

from monitor.alerts.verdicts import because, compare, count_users, figure, silent
from monitor.model import ALL, CoverageRow, CoverageShare, Lack, Outcome, Rule, RunStatus, Verdict

_SAID = {
    Lack.MISSING: "gave no list for",
    Lack.EMPTY: "gave an empty list for",
    Lack.SHORT: "gave a list shorter than k for",
    Lack.DUPLICATED: "gave a list with duplicates for",
    Lack.FAILED: "failed to answer for",
}


def judge_coverage(rule: Rule, segment: str, status: RunStatus, row: CoverageRow | None, run_reason: str | None) -> Verdict:
    """Judge one segment by one rule on coverage, in every run that knows its coverage, also one that failed for lack of lists.

    ``error`` for a run that ended before anybody was asked, ``no_data`` for a segment of which nobody was asked, ``too_few``
    for fewer than ``min_users``.
    """
    if row is None or not row.asked:
        if status in (RunStatus.OK, RunStatus.INSUFFICIENT):
            return silent(Outcome.NO_DATA, f"nobody{'' if segment == ALL else f' of {segment}'} was asked")
        return silent(Outcome.ERROR, because("the run ended before its coverage was known", run_reason))
    if row.asked < rule.min_users:
        few = f"only {count_users(row.asked, segment)} were asked, fewer than the {rule.min_users:,} needed"
        return silent(Outcome.TOO_FEW, few, row.asked)
    share = CoverageShare.parse(rule.statistic)
    count = share.count(row)
    value = count / row.asked
    what = tell_coverage(share, count, count_users(row.asked, segment))
    return compare(rule, f"{what} ({figure(value, rule.threshold, rule.resolve_at)})", value, row.asked)


def tell_coverage(share: CoverageShare, count: int, asked: str) -> str:
    """``the candidate gave no list for 34 of 690 users``; ``asked`` tells the users in words."""
    if share.arm is None:
        return f"{count:,} of {asked} could not be compared"
    return f"the {share.arm} {_SAID[share.lack]} {count:,} of {asked}"
