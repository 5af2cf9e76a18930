"""Writes about checks of the configuration, proposed thresholds, plans and backtests."""

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta

from monitor.texts.wording import count_of, write_percent


def write_checked(
    config: str, comparisons: int, receivers: int, unread: Sequence[str], unusable: Sequence[str]
) -> str:
    """Say that the configuration is valid, and which comparisons cannot be used.

    The sources of the comparisons ``unread`` gave no lists. They are also ``unusable``.
    """
    counts = f"{count_of(comparisons, 'comparison')}, {count_of(receivers, 'receiver')}"
    valid = f"{config}: the configuration is valid ({counts})"
    if unread:
        return f"{valid}, but no lists could be compared for {', '.join(unread)}"
    if unusable:
        return f"{valid}, but cannot be used yet, for the reasons above: {', '.join(unusable)}"
    return f"{valid}, and its sources can be compared"


def write_database(location: str, schema: str | None) -> str:
    """Which database was reached, and whether it has tables."""
    if schema is None:
        return (
            f"{location} has no tables yet: `rankwatch serve` and `rankwatch run-once` create them"
        )
    return f"{location} can be used (schema {schema})"


def write_first_change(config: str, setting: str, line: int) -> str:
    """Say which setting to change first, because its source gave no lists."""
    return f"Change first: `{setting}` in {config}, line {line}, or the data that it reads"


def write_too_few_healthy(runs: int, needed: int) -> str:
    """Say that there are too few healthy runs to learn a threshold."""
    return f"there are {runs} healthy runs, but {needed} are needed"


def write_not_stored(statistic: str) -> str:
    """Say that no threshold can be learned, because this statistic is not stored."""
    return f"{statistic} is not stored, because runs store it only if a rule uses it"


def write_uncertain(statistic: str) -> str:
    """Say that no threshold can be learned, because the runs have too few users."""
    return f"{statistic} is too uncertain, because the runs have too few users"


def write_too_rare(runs: int, accepted: timedelta, possible: timedelta) -> str:
    """Say that there are too few healthy runs for a threshold with so few false alerts."""
    return (
        f"{runs} healthy runs are too few for at most one false alert in {_days(accepted)}. "
        f"They allow one in {_days(possible)}: wait for more runs, or accept more false alerts"
    )


def write_false_alerts(every: timedelta) -> str:
    """Say how often all proposed thresholds together cause a false alert."""
    return f"all together: one false alert in {_days(every)}"


def _days(span: timedelta) -> str:
    return f"{span / timedelta(days=1):,.3g} days"


def write_no_users_suffice(
    wander: float, runs: int, least_drop: float, learned: float, more_runs: int | None
) -> str:
    """Say why no number of users can show the drop in ``runs`` runs, and what can show it."""
    remedy = f"the {learned:g} healthy runs are too few to show so small a change"
    if more_runs is not None:
        remedy = f"{more_runs:,} or more runs judged together can show it"
    span = "one run" if runs == 1 else f"{runs:,} runs"
    return (
        f"no number of users is enough: the mean varies by {wander:.3g} between runs, so the "
        f"smallest change that {span} can show is {least_drop:.3g}; {remedy}"
    )


def write_no_runs_suffice(learned: float, least_drop: float) -> str:
    """Say why no number of runs can show the drop, and what can show it."""
    return (
        f"no number of runs is enough: with {learned:g} earlier healthy runs the smallest drop "
        f"that can be shown is {least_drop:.3g}; wait for more healthy runs, or ask for more users"
    )


def write_spread(
    mean: float | None,
    sd_of_users: float,
    sd_of_runs: float,
    healthy_runs: int,
    *,
    assumes_runs: bool = False,
) -> str:
    """Write the figures of a plan: the mean, and how much users and runs vary.

    ``assumes_runs`` says whether the number of healthy runs is an assumption.
    """
    healthy_mean = "" if mean is None else f"healthy mean {mean:.4g}, "
    runs = f"{healthy_runs:,} healthy runs"
    if assumes_runs:
        runs = f"assuming {runs}; --learned changes this"
    return (
        f"{healthy_mean}standard deviation {sd_of_users:.3g} over users and {sd_of_runs:.3g} over "
        f"runs ({runs})"
    )


def write_chance(drop: float, users: int, runs: int, chance: float) -> str:
    """Say how probable it is that these runs show the change of the mean."""
    size = f"{runs:,} runs of {users:,} users"
    return (
        f"a change of {drop:.3g} is detected in {size} with a probability of {100 * chance:.1f} %"
    )


def write_needed(drop: float, power: float, alpha: float, answer: str) -> str:
    """Say how many users or runs can show the drop, or why none can (``answer``)."""
    judgements = float(f"{1 / alpha:.3g}")  # further digits differ between machines
    return (
        f"to detect a change of {drop:.3g} with a probability of {write_percent(power)}, if one judgement in "
        f"{judgements:,.0f} may be a false alert: {answer}"
    )


def write_size(users: int, runs: int) -> str:
    """Write a number of runs and users, such as ``1 run of 195 users``."""
    together = "1 run" if runs == 1 else f"{runs:,} runs judged together"
    return f"{together} of {users:,} users"


def write_least_drop(users: int, drop: float) -> str:
    """Say which drop a usual run detects."""
    return f"a usual run of {users:,} users detects a change of {drop:.3g} with this probability"


def write_arm_sizes(users: int, runs: int, baseline_share: float, interval: timedelta) -> str:
    """Say how many of a run's users each arm needs, and how long the runs take."""
    of_baseline = math.ceil(users * baseline_share)
    of_candidate = math.ceil(users * (1 - baseline_share))
    days = runs * interval / timedelta(days=1)
    return (
        f"each run needs {of_baseline:,} users of the baseline and {of_candidate:,} users of the "
        f"candidate; time needed: {days:,.3g}d"
    )


def write_early_stop(needed: int, users: int) -> str:
    """Say how many users `stop_when: decided` would ask for."""
    return (
        f"with stop_when: decided, a run like the newest would ask for about {needed:,} of "
        f"{users:,} users ({write_percent(1 - needed / users)} fewer) for the same verdicts"
    )


def write_judged_again(comparison: str, runs: Iterable[tuple[str, int]]) -> str:
    """Say how many stored runs a backtest judged. ``runs`` has the number for each status."""
    total = 0
    counts = []
    for status, count in runs:
        total += count
        counts.append(f"{count:,} {status}")
    judged = f"{comparison}: {total:,} stored runs judged again"
    return f"{judged} ({', '.join(counts)})" if counts else judged


def write_lacking(alert: str, metric: str, statistic: str, runs: int) -> str:
    """Say in how many runs of a backtest the rule could not be judged, and why."""
    return (
        f"{alert} could not be judged in {runs:,} of these runs. They have no {statistic} of "
        f"{metric}, and no stored lists or scores to compute it from"
    )
