"""What is measured and judged with a configuration. ``make generated`` writes golden.txt.

Each configuration is below the claim that it shows.
"""

from dataclasses import fields

from factories import SLOT
from monitor.settings.configuration import RetentionOptions
from monitor.settings.translation import policy_of
from settings.minimal import (
    MINIMAL,
    NOTIFICATION,
    RELEVANCE,
    RETRAIN,
    UNPAIRED,
    WEIGHTS,
    comparison_of,
    load_text,
)
from texts.examples import show

TITLE = """WHAT IS MEASURED AND JUDGED

`make generated` makes this file from plan_examples.py. A test compares it with the code.
"""
DEFAULT = "    rules: default\n"
DISTANCES = "[footrule_normalized, kendall_distance, average_overlap]"
OWN = """    default_rules: true
    rules:
      - {alert: Low, metric: extended_tau, below: 0.2}
      - {alert: TailDrop, metric: extended_tau, statistic: p10, learned: drop}
"""
LIMITS = """    metrics: [extended_tau, rbo, overlap, footrule_normalized]
    rules:
      - {alert: A, metric: rbo, below: 0.6, resolve_above: 0.65}
      - {alert: B, metric: overlap, statistic: share_below(0.30), above: 0.2}
      - {alert: C, metric: extended_tau, below: 0}
      - {alert: D, metric: over_floor(extended_tau), above: 0.1, resolve_below: 0.05}
      - {alert: E, metric: floor(rbo), below: 0.5}
      - {alert: F, coverage: missing, above: 0.02, resolve_below: 0.01}
      - {alert: G, coverage: failed(baseline), above: 0}
      - {alert: H, coverage: unpaired, above: 0.5}
      - {alert: I, coverage: short, learned: jump}
      - {alert: J, metric: extended_tau, learned: drop}
      - {alert: K, metric: extended_tau, learned: drop, watch: improvement}
      - {alert: L, metric: extended_tau, statistic: share_below(0), learned: trend}
      - {alert: M, metric: extended_tau, statistic: share_below(0), learned: drop, watch: improvement}
      - {alert: N, metric: footrule_normalized, statistic: p95, learned: drop}
"""
OPTIONS = """    false_alarm_every: 30d
    timezone: Europe/Berlin
    holidays: [2026-03-28..2026-03-29, 2026-12-31]
    rules:
      - alert: Low
        metric: rbo
        below: 0.6
        for: 2
        labels: {team: 7}
        segments: each
        min_users: 50
        severity: critical
        resolve_after: 3
"""
FOR_ALL = """conditions:
  error: {for: 4, severity: critical, runbook_url: https://runbooks.test/failing}
  no_data: {policy: ignore, for: 7}
  stale: {after: 5}
"""
OF_ONE = """    conditions:
      error: {for: 1}
      too_few: {policy: keep}
      no_data: {segments: each}
"""
PUT_BACK = "    conditions: {no_data: {policy: alert}}\n"
NO_DATA = "    rules: [{alert: NoData, coverage: unpaired, above: 0.3}]\n"
EXAMPLES = {
    "Without rules there are the rules on conditions": MINIMAL,
    "Conditions of a comparison override those of all comparisons key by key": (
        FOR_ALL + MINIMAL + OF_ONE
    ),
    "A comparison may put back what is ignored for all": FOR_ALL + MINIMAL + PUT_BACK,
    "A rule replaces the rule on a condition of the same name": MINIMAL + NO_DATA,
    "A rule has or learns its side, its threshold and where it ends": MINIMAL + RETRAIN + LIMITS,
    "A rule may say when and for whom it fires, and holidays are whole days": MINIMAL + OPTIONS,
    "The default rules watch mean, tail, shares, coverage and standstill": MINIMAL + DEFAULT,
    "Without lists of the last run no standstill is watched": (
        f"{MINIMAL}    keep_lists: false\n{DEFAULT}"
    ),
    "With a noise floor the default rules watch the excess over it": MINIMAL + RETRAIN + DEFAULT,
    "A metric that grows as lists drift apart is watched on its other side": (
        f"{MINIMAL}    metrics: {DISTANCES}\n{DEFAULT}"
    ),
    "A name has the parameters of its metric if two metrics differ only in them": (
        f"{MINIMAL}    metrics: [overlap, rbo(p=0.9), rbo(p=0.98)]\n{DEFAULT}"
    ),
    "Own rules are added to default rules and replace those of the same name": MINIMAL + OWN,
    "The rules of an unpaired comparison watch gaps and the coverage of each arm": (
        UNPAIRED + DEFAULT
    ),
    "A distance has a self gap and no far gap": (
        f"{UNPAIRED}    metrics: [footrule_normalized]\n{DEFAULT}"
    ),
}

MEASURING = {
    "Metrics are spelt as they print": [
        f"{MINIMAL}    metrics: [ rbo, 'rbo( p=0.80 )@5', overlap ]\n"
    ],
    "A sample is fixed unless it says otherwise": [
        MINIMAL.replace("id}}", f"id}}, sample: {size}}}")
        for size in ("500", "{rotating: 300}", "{fixed: 100, rotating: 200}")
    ],
    "The deadline is ten minutes or four fifths of a short interval": [
        MINIMAL.replace("every: 15m", schedule)
        for schedule in (
            "every: 1m",
            "every: 2s",
            "cron: '*/5 * * * *'",
            "every: 1h\n    deadline: 30m",
        )
    ],
    "Lists are kept where something will need them": [
        f"{MINIMAL}    {setting}\n"
        for setting in (
            RELEVANCE,
            WEIGHTS,
            "arm_metrics: [novelty]",
            "arm_metrics: [exposure_gini, self_churn]",
            "arm_metrics: []",
            "keep_lists: true",
            "keep_lists: false",
            "keep_lists: 200",
        )
    ],
    "Scores are kept of all users, of the panel, of so many, or of none": [
        MINIMAL.replace("id}}", "id}, sample: {fixed: 5, rotating: 5}}")
        + f"    keep_scores: {word}\n"
        for word in ("all", "None", "panel", "'500'")
    ],
    "Relevance is requested at once and waited for a week, or as its settings say": [
        f"{MINIMAL}    {RELEVANCE}\n",
        f"{MINIMAL}    {RELEVANCE.removesuffix('}')}, within: 60h, after: 2d}}\n",
    ],
}


def golden():
    """The whole file."""
    parts = [TITLE]
    for claim, texts in MEASURING.items():
        parts.append(f"\n{claim.upper()}\n")
        parts += ["; ".join(_chosen(comparison_of(text).measuring)) for text in texts]
    parts.append("\nLISTS GO WITH THE SCORES AND SUMMARIES WITH THE RUNS, OR AS SETTINGS SAY\n")
    for ages in ({"scores": "7d", "runs": "100d"}, {"lists": "1d", "summaries": "30d"}):
        parts.append(f"{ages}: {show(RetentionOptions.model_validate(ages).cutoffs(SLOT))}")
    policy = policy_of(load_text(MINIMAL + NOTIFICATION))
    parts.append("\nA SHARED NAME OF RECEIVERS STANDS FOR EACH OF THEM\n")
    parts += [*map(show, policy.routes), show(policy.fallbacks)]
    for claim, text in EXAMPLES.items():
        judging = comparison_of(text).judging
        parts += [f"\n{claim.upper()}\n", "; ".join(_chosen(judging, "rules"))]
        parts += map(_show, judging.rules)
    return "\n".join([*parts, ""])


def _show(rule):
    subject = f"{rule.alert}: {rule.subject.statistic} of {rule.subject.metric}"
    chosen = _chosen(rule, "alert", "metric", "statistic", "share", "arm", "condition")
    return "; ".join([subject, *chosen])


def _chosen(value, *left_out):
    """The fields that do not have their default, but for these."""
    for field in fields(value):
        part = getattr(value, field.name)
        if isinstance(part, frozenset):
            part = tuple(sorted(part))
        if field.name not in left_out and part not in (field.default, (), {}):
            yield f"{field.name} {show(part)}"
