"""Configurations with default rules, each below the claim that it shows. ``make generated`` writes golden.txt."""

from settings.minimal import MINIMAL, RETRAIN, UNPAIRED, comparison_of, learning_of

TITLE = """THE DEFAULT RULES

`make generated` makes this file from rule_pack_examples.py. A test compares it with the code.
"""
DISTANCES = "[footrule_normalized, kendall_distance, average_overlap]"
OWN = """    default_rules: true
    rules:
      - {alert: Low, metric: extended_tau, below: 0.2}
      - {alert: TailDrop, metric: extended_tau, statistic: p10, learned: drop}
"""
EXAMPLES = {
    "The pack watches mean, tail, shares, coverage and standstill": MINIMAL,
    "Without lists of the last run no standstill is watched": f"{MINIMAL}    keep_lists: false\n",
    "With a noise floor the pack watches the excess over it": MINIMAL + RETRAIN,
    "A metric that grows as lists drift apart is watched on its other side": (
        f"{MINIMAL}    metrics: {DISTANCES}\n"
    ),
    "A name has the parameters of its metric if two metrics differ only in them": (
        f"{MINIMAL}    metrics: [overlap, rbo(p=0.9), rbo(p=0.98)]\n"
    ),
    "Own rules are added to the pack and replace its rules of the same name": MINIMAL + OWN,
    "The pack of an unpaired comparison watches gaps and the coverage of each arm": UNPAIRED,
    "A distance has a self gap and no far gap": (f"{UNPAIRED}    metrics: [footrule_normalized]\n"),
}


def golden():
    """The whole file."""
    parts = [TITLE]
    for claim, text in EXAMPLES.items():
        default = "" if "rules:" in text else "    rules: default\n"
        judging = comparison_of(text + default).judging
        parts += [f"\n{claim.upper()}\n", *map(_show, judging.rules)]
    return "\n".join([*parts, ""])


def _show(rule):
    learning = learning_of(rule) or "fixed"
    subject = f"{rule.subject.metric} {rule.subject.statistic} {rule.direction} {learning}"
    end = f"ends after {rule.resolve_after}"
    return f"{rule.alert}: {subject}, segments {rule.segments}, {rule.severity}, {end}"
