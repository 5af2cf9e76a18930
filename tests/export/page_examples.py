"""Pages that Prometheus scrapes. ``make generated`` writes golden.txt.

The file has a page with every series. For each claim it then has the samples by which a page differs.
"""

import published
from factories import DAY, HeldClock
from monitor.export.publisher import PrometheusPublisher
from monitor.model.alerts import Outcome, State
from monitor.model.rules import Severity
from monitor.model.runs import RunStatus

TITLE = """THE PAGE THAT PROMETHEUS SCRAPES

`make generated` makes this file from page_examples.py. A test compares it with the code.
"""
NOBODY = published.summary(
    n=0, n_undefined=5, mean=None, standard_error=None, statistics={"winsorized": 1.0, "p05": 0.25}
)
ALERTS = (
    (State.QUIET, Outcome.OK, Severity.CRITICAL),
    (State.PENDING, Outcome.BREACH, Severity.WARNING),
    (State.FIRING, Outcome.NO_DATA, Severity.INFO),
    (State.QUIET, Outcome.TOO_FEW, Severity.INFO),
    (State.FIRING, Outcome.ERROR, Severity.WARNING),
)
EXAMPLES = {
    "A run that is not ok has a status and coverage, and no similarity": [
        published.latest(status=status, last_ok_at=published.SLOT - DAY)
        for status in (RunStatus.FAILED, RunStatus.INSUFFICIENT, RunStatus.ABANDONED)
    ],
    "A run that failed before its coverage was known has none": [
        published.latest(
            status=RunStatus.FAILED, coverage=None, summaries=(), states=(), last_ok_at=None
        )
    ],
    "An undefined arm metric is absent": [
        published.latest(arm_scores=(published.arm_score(metric="novelty", value=None, n=0),))
    ],
    "Chance is what two random lists would give": [
        published.latest(
            catalogue_size=100,
            summaries=(
                published.summary(metric="extended_tau"),
                published.summary(metric="of_a_newer_version"),
            ),
        )
    ],
    "Without a catalogue of k items chance is absent": [
        published.latest(catalogue_size=None),
        published.latest(catalogue_size=5),
        published.latest(k=None),
    ],
    "An alert shows its state, and whether its verdict is about similarity": [
        published.latest(states=(published.state(state=state, outcome=outcome, severity=severity),))
        for state, outcome, severity in ALERTS
    ],
    "What has no value is absent, and so is an unknown statistic": [
        published.latest(summaries=(NOBODY,), states=(published.state(value=None),))
    ],
}


def golden():
    """The whole file."""
    filled, usual = published.filled(), _page(published.latest())
    parts = [TITLE, *_lines(filled)]
    for claim, results in EXAMPLES.items():
        for newest in results:
            parts += [f"\n\n{claim.upper()}\n", *_differences(usual, _page(newest))]
    never = _page(published.latest(), names=("home-feed", "search"))
    parts += ["\n\nA COMPARISON THAT NEVER RAN HAS NO STATUS\n", *_differences(usual, never)]
    return "\n".join([*parts, ""])


def _page(newest, names=("home-feed",)):
    publisher = PrometheusPublisher(version="1.2.3", clock=HeldClock())
    publisher.register(names, [])
    publisher.publish([newest])
    return [line for line in _lines(publisher) if line[0] != "#"]


def _lines(publisher):
    """The lines about series of rankwatch, but for the build. Values have ten digits."""
    for line in publisher.render()[0].decode().splitlines():
        if line.startswith("# ") and " rankwatch_" in line:
            yield line
        if line.startswith("rankwatch_") and "build_info" not in line:
            sample, _, value = line.rpartition(" ")
            yield f"{sample} {float(value):.10g}"


def _differences(usual, page):
    yield from (f"without {line}" for line in usual if line not in page)
    yield from (f"with {line}" for line in page if line not in usual)
