"""Shares of coverage as summaries, so that rules learn from them as they do from similarity."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model import COVERAGE, Coverage, CoverageRow, CoverageShare, Histogram, Rule, RuleKind, Summary


def summarize_coverage(coverage: Coverage | None, rules: Sequence[Rule]) -> tuple[Summary, ...]:
    """One summary a segment of whom somebody was asked, with the shares that these rules learn; none where none does."""
    names = dict.fromkeys(rule.statistic for rule in rules if rule.metric == COVERAGE and rule.kind is not RuleKind.THRESHOLD)
    shares = [CoverageShare.parse(name) for name in names]
    rows = coverage.rows if coverage and shares else ()
    return tuple(_summarize(row, shares) for row in rows if row.asked)


def _summarize(row: CoverageRow, shares: Sequence[CoverageShare]) -> Summary:
    return Summary(
        segment=row.segment,
        metric=COVERAGE,
        n=row.asked,
        n_undefined=0,
        mean=None,
        standard_error=None,
        statistics={str(share): share.count(row) / row.asked for share in shares},
        histogram=Histogram(low=0.0, high=1.0, counts=()),
    )
