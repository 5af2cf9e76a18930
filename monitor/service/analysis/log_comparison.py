"""Compare the arms of an A/B test by a log of lists. This needs no configuration and no database."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path

import yaml

from monitor.model.errors import InputError
from monitor.model.immutable import immutable
from monitor.model.memory import Memory
from monitor.model.run_reasons import RunReasonKind
from monitor.model.runs import Claim, FinishedRun, RunResult, RunStatus
from monitor.pipeline.run import execute
from monitor.service.clock import SystemClock
from monitor.service.composition import open_wiring
from monitor.settings.loader import parse_settings
from monitor.sources.file import FileSourceOptions

_COMPARISON_NAME = "log"


@immutable
class LoggedTest:
    """An A/B test, and the columns of its log."""

    arm: str  # the column with the arm
    time: str  # the column with the time at which the list was served
    arms: tuple[str, str]  # the values of the baseline and of the candidate
    before: datetime  # when the test began
    baseline_share: float  # planned
    outcomes: tuple[str, ...]  # columns


def compare_log(  # noqa: PLR0913 - the options of the command
    log: FileSourceOptions,
    test: LoggedTest,
    metrics: Sequence[str],
    k: int,
    *,
    by: str | None,
    worst: int,
    now: datetime,
) -> RunResult:
    """Compare each user's newest list with the user's pre-test list, and then both arms.

    Raises InputError if the log, an outcome or an option is unusable.
    """
    baseline, candidate = test.arms
    seconds = (now - test.before) // timedelta(seconds=1)
    if seconds <= 0:
        raise InputError("--before is not in the past: give the time when the test began")
    served = {"time": test.time, "within": f"{seconds}s"}
    file = log.model_dump(mode="json", exclude_unset=True)
    unpaired: Mapping[str, object] = {
        "log": {"file": {**file, "served": served}},
        "arm": test.arm,
        "baseline": baseline,
        "candidate": candidate,
        "split": {baseline: test.baseline_share, candidate: 1 - test.baseline_share},
        "before": test.before.isoformat(),
        "segments": [] if by is None else [by],
        "outcomes": list(test.outcomes),
    }
    comparison = {
        "name": _COMPARISON_NAME,
        "every": "1d",
        "k": k,
        "metrics": list(metrics),
        "evidence_users": worst,
        "unpaired": unpaired,
    }
    text = yaml.safe_dump({"comparisons": [comparison]})
    watched = open_wiring(parse_settings(text, name="--unpaired", base_dir=Path.cwd())).watched[
        _COMPARISON_NAME
    ]
    claim = Claim(
        run_id=0,
        comparison=_COMPARISON_NAME,
        slot=now,
        owner="",
        attempt=1,
        started_at=now,
        until=now,
    )
    result = execute(watched.comparison, watched.sources, claim, Memory(), SystemClock())
    if result.status is RunStatus.FAILED or result.coverage is None:
        raise InputError(result.reason or "the log could not be read")
    outcomes = () if result.unpaired is None else result.unpaired.outcomes
    if len(outcomes) < len(test.outcomes):
        # A configured comparison continues without an outcome. Here the user asked for it.
        left_out = (
            reason.text for reason in result.reasons if reason.kind is RunReasonKind.LEFT_OUT
        )
        raise InputError("; ".join(left_out))
    return result


def as_finished_run(result: RunResult) -> FinishedRun:
    """Return the result as a run, which is shown like a stored run."""
    claim = result.claim
    all_users = result.coverage.all if result.coverage else None
    run_fields = {run_field.name for run_field in fields(FinishedRun)}
    shared_fields = run_fields & {result_field.name for result_field in fields(RunResult)}
    return FinishedRun(
        id=claim.run_id,
        comparison=claim.comparison,
        attempt=claim.attempt,
        owner=claim.owner,
        started_at=claim.started_at,
        asked=all_users.asked if all_users else None,
        paired=all_users.paired if all_users else None,
        **{name: getattr(result, name) for name in shared_fields},
    )
