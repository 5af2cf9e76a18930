"""The sample messages and outputs in the runbooks. ``python -m runbooks.samples`` writes them.

A comment before a block of a page says where it comes from: `message of ALERT` is the message of
rankwatch or Prometheus about this alert, and `output with ALERT` is what the command prints then.
In commands, COMPARISON and SLOT are placeholders. `output with ALERT at TIME` gives the slot.
"""

import re
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from factories import DAY, MINUTE, transition
from monitor.model.alerts import RootCause
from monitor.model.errors import DatabaseErrorKind
from monitor.model.rules import Condition
from monitor.receivers.message.content import content_of
from monitor.receivers.message.plain_text import plain_text
from monitor.service.daemon.outage import Outage, compose_outage_start
from monitor.texts.root_causes import write_missed, write_stale
from places import ROOT
from runbooks.faults import FAULTS
from runbooks.world import (
    BEGIN,
    HEALTHY,
    NAME,
    URL,
    message_about_start,
    message_of,
    output_of,
    write_fault,
    write_healthy,
    write_healthy_test,
    write_test,
)

PAGES = ROOT / "docs/runbooks"
MESSAGE_GUIDE = PAGES.parent / "explanation/message.md"
_MESSAGE = re.compile(r"(<!-- message of (\w+) -->\n```text\n)(.*?)(?=```)", re.DOTALL)
_ITEMS = re.compile(r"\n\n(?:Items that|Lists of) .*", re.DOTALL)
"""The end of a message: items and lists. A page whose block ends with ``...`` leaves them out."""
_OUTPUT = re.compile(
    r"(<!-- output with (\w+)(?: at (\S+))? -->\n```console\n\$ (rankwatch.*?)\n)(.*?)(?=```)",
    re.DOTALL,
)
_FAULTS = {fault.alert: fault for fault in FAULTS}


class Worlds:
    """One installation for each fault, made when it is first asked for."""

    def __init__(self, folder):
        self._folder = folder

    def of(self, alert):
        folder = self._folder / alert
        if not folder.exists():
            fault = _FAULTS[alert]
            if fault.log is None:
                write_fault(self._healthy(fault), folder, fault)
            else:
                write_test(self._healthy_test(), folder, fault)
        return folder

    def _healthy_test(self):
        folder = self._folder / "test"
        if not folder.exists():
            write_healthy_test(folder)
        return folder

    def _healthy(self, fault):
        folder = self._folder / "-".join([*fault.metrics, str(fault.has_floor)])
        if not folder.exists():
            folder.mkdir()
            write_healthy(folder, fault)
        return folder


def short_folder():
    """A folder whose path always has the same length, since messages cut long paths."""
    return TemporaryDirectory(prefix="rw", dir="/tmp")


def with_samples(page, worlds):
    """The page with its messages and outputs as they are now."""

    def message(block):
        text = message_about(block[2], worlds)
        if block[3].endswith("...\n"):
            text = _ITEMS.sub("\n...", text)
        return f"{block[1]}{text}\n"

    def output(block):
        command = block[4].replace("COMPARISON", NAME).replace("SLOT", block[3] or "")
        return f"{block[1]}{output_of(worlds.of(block[2]), command)}\n"

    return _OUTPUT.sub(output, _MESSAGE.sub(message, page))


def message_about(alert, worlds):
    if alert in _FAULTS:
        return message_of(worlds.of(alert), alert)
    if alert in _OF_RANKWATCH:
        return plain_text(content_of(_OF_RANKWATCH[alert](), URL)).strip()
    return prometheus_message(alert)


def prometheus_message(name):
    """Severity and annotations of an alert, as the rules' tests with promtool expect them."""
    expected = _expected_alerts()[name]
    annotations = expected["exp_annotations"]
    return "\n".join(
        [
            f"{name} ({expected['exp_labels']['severity']}): {annotations['summary']}",
            annotations["description"],
            f"Runbook: {annotations['runbook_url']}",
            f"Dashboard: {annotations['dashboard_url']}",
        ]
    )


@cache
def _expected_alerts():
    found = {}
    for file in sorted(ROOT.glob("tests/deploy/rankwatch.rules*.test.yml")):
        for test in yaml.safe_load(file.read_text())["tests"]:
            for case in test.get("alert_rule_test", ()):
                for expected in case["exp_alerts"]:
                    found.setdefault(case["alertname"], expected)
    return found


def _stale():
    since = BEGIN + (HEALTHY - 1) * DAY
    cause = RootCause(run_failure="candidate recs.internal answered 503 (200 of 200 users)")
    headline = write_stale(since, cause, has_succeeded=True)
    start = transition(
        alert="Stale",
        metric="condition",
        statistic=Condition.STALE.value,
        reason=write_missed(headline, 3),
        headline=headline,
        value=None,
        slot=since,
        at=since + timedelta(days=3, minutes=10),
        since=since,
        runbook_url=f"{URL}/docs/runbooks/Stale",
    )
    failing = replace(
        start,
        alert="RunFailing",
        statistic=Condition.ERROR.value,
        slot=since + 2 * DAY,
        since=since + DAY,
        dedup_key="failing",
    )
    return replace(message_about_start(start), firing=(start, failing))


def _database_away():
    since = BEGIN + HEALTHY * DAY
    place = "PostgreSQL database rankwatch at db.internal:5432"
    outage = Outage(
        since=since,
        since_s=0.0,
        began_s=0.0,
        reason=(
            f"{place} cannot be reached: check that the server runs, and host and port in `database:`"
        ),
        kind=DatabaseErrorKind.UNREACHABLE,
    )
    start = compose_outage_start(outage, since + 2 * MINUTE, place, None)
    return message_about_start(replace(start, runbook_url=f"{URL}/docs/runbooks/DatabaseAway"))


_OF_RANKWATCH: Any = {
    "Stale": _stale,
    "DatabaseAway": _database_away,
}


if __name__ == "__main__":
    with short_folder() as folder:
        worlds = Worlds(Path(folder))
        for path in (*sorted(PAGES.glob("*.md")), MESSAGE_GUIDE):
            path.write_text(with_samples(path.read_text(), worlds))
