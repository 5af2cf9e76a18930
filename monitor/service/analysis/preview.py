"""Preview a configured comparison with a few users. Nothing is stored or sent."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime
from functools import partial

from monitor.alerts.unmatched_names import find_unmatched
from monitor.model.errors import ConfigError, MonitorError, SourceError
from monitor.model.immutable import immutable
from monitor.model.memory import Memory
from monitor.model.rankings import ALL, Arm, Coverage, CoverageReason, UserTable
from monitor.model.rules import Comparison
from monitor.model.run_reasons import IdKind, IdMismatch, UnmatchedName
from monitor.model.runs import Evidence, MeasuredRun, items_of
from monitor.model.statistics import NoiseFloor
from monitor.model.unpaired import UnpairedResults
from monitor.pipeline.id_spellings import compare_listed_users
from monitor.pipeline.item_titles import pull_titles
from monitor.pipeline.pull import ComparisonSources, ask_in_time, draw_panel
from monitor.pipeline.run_assessment import find_unpaired_obstacles
from monitor.pipeline.run_measurement import measure_slot
from monitor.pipeline.stopwatch import Stopwatch
from monitor.service.clock import SystemClock
from monitor.service.runner import WatchedComparison
from monitor.sources import SampleOptions
from monitor.texts.run_reasons import write_run_reason

_WAIT_S = 60.0


@immutable
class Match:
    """How many ids of the baseline also occur in the candidate."""

    ids: IdKind
    matching: int
    of: int


@immutable
class Preview:
    """The lists of a few users from both arms, or why they could not be read."""

    comparison: Comparison
    slot: datetime
    next_slot: datetime
    coverage: Coverage | None = None
    evidence: tuple[Evidence, ...] = ()
    problems: tuple[str, ...]
    matches: tuple[Match, ...] = ()
    id_mismatches: tuple[IdMismatch, ...] = ()
    unmatched: tuple[UnmatchedName, ...] = ()
    notes: Mapping[tuple[Arm, CoverageReason], str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    unpaired: UnpairedResults | None = None
    obstacles: tuple[str, ...] = ()  # why runs cannot be judged, also among the problems

    @property
    def is_usable(self) -> bool:
        """Whether lists were compared, runs can be judged, and all outcomes were read."""
        plan = self.comparison.measuring.unpaired
        outcomes = () if self.unpaired is None else self.unpaired.outcomes
        is_unread = plan is not None and len(outcomes) < len(plan.outcomes)
        return bool(self.evidence) and not self.obstacles and not is_unread

    @property
    def unread_setting(self) -> str | None:
        """The setting to change first if runs would be useless. None if they would not."""
        if self.is_usable:
            return None
        if self.coverage is None:
            return "users"
        # An arm whose requests all failed for one reason.
        for (arm, reason), count in self.coverage.all.users_by_reason.items():
            if count == self.coverage.all.asked and (arm, reason) in self.notes:
                return str(arm)
        return "users"


def preview_users(watched: WatchedComparison, count: int) -> Preview:
    """Ask both arms of a comparison for the lists of a few users.

    An unpaired comparison asks for all users, because their number in each arm is shown.
    """
    comparison = watched.comparison
    measuring = replace(comparison.measuring, evidence_users=count)
    if measuring.unpaired is None:
        measuring = replace(measuring, sample=SampleOptions(rotating=count))
    if measuring.noise_floor is NoiseFloor.TEMPORAL:
        measuring = replace(measuring, noise_floor=None)  # there is no earlier run
    few = replace(comparison, measuring=measuring)
    now = SystemClock().now()
    slot = watched.schedule.latest(now)
    preview = partial(Preview, comparison=few, slot=slot, next_slot=watched.schedule.next(now))
    try:
        measured = measure_slot(few, watched.sources, slot, Memory(), Stopwatch(SystemClock()))
    except SourceError as error:
        return preview(problems=(watched.sources.error_text(error),))
    except MonitorError as error:
        return preview(problems=(str(error),))
    titles, failure = pull_titles(watched.sources.titles, slot, items_of(measured.run.evidence))
    tables = _read_user_tables(watched.sources, slot)
    obstacles: list[str] = []
    if measured.run.unpaired is not None:
        reasons = find_unpaired_obstacles(few, measured.run.unpaired, ())
        obstacles += map(write_run_reason, reasons)
    problems = [*measured.left_out, *obstacles]  # such as outcomes without numbers
    if failure is not None:
        problems.append(failure)
    return preview(
        coverage=measured.coverage,
        unpaired=measured.run.unpaired,
        evidence=measured.run.evidence,
        problems=tuple(dict.fromkeys(problems)),
        obstacles=tuple(obstacles),
        matches=tuple(_matches(tables, measured.run.evidence)),
        id_mismatches=_find_mismatches(watched.sources, tables, measured.run),
        unmatched=_find_unmatched(comparison, watched.sources, slot),
        notes={key: str(note) for key, note in measured.notes.items()},
        titles=titles,
    )


@immutable
class _UserTables:
    """The users of the panel, and the users of each arm that can list them."""

    panel: UserTable
    listed: Mapping[Arm, UserTable]


def _read_user_tables(sources: ComparisonSources, slot: datetime) -> _UserTables | None:
    """Read the users of the panel and of both arms once, because this may take long.

    None if no arm can list its users, or if the users of the panel cannot be read.
    """
    listed = {}
    for arm, source in sources.listed.items():
        with suppress(ConfigError, SourceError):  # reported elsewhere
            listed[arm] = ask_in_time(partial(source.users, slot, ()), _WAIT_S, "late")
    if not listed:
        return None
    with suppress(ConfigError, SourceError):  # reported elsewhere
        panel = ask_in_time(partial(sources.users.users, slot, ()), _WAIT_S, "late")
        return _UserTables(panel=panel, listed=listed)
    return None


def _matches(tables: _UserTables | None, evidence: tuple[Evidence, ...]) -> Iterator[Match]:
    """Yield how many users and how many shown items of the baseline the candidate also has."""
    if tables is not None and Arm.CANDIDATE in tables.listed:
        candidate_users = tables.listed[Arm.CANDIDATE].users
        yield _count_matching(IdKind.USER, tables.panel.users, candidate_users)
    if evidence:
        items: list[str] = []
        candidate_items: list[str] = []
        for lists in evidence:
            items += lists.baseline
            candidate_items += lists.candidate
        yield _count_matching(IdKind.ITEM, items, candidate_items)


def _count_matching(ids: IdKind, baseline: Iterable[str], candidate: Iterable[str]) -> Match:
    baseline_ids = set(baseline)
    matching = baseline_ids & set(candidate)
    return Match(ids=ids, matching=len(matching), of=len(baseline_ids))


def _find_mismatches(
    sources: ComparisonSources, tables: _UserTables | None, run: MeasuredRun
) -> tuple[IdMismatch, ...]:
    """Return why item ids or user ids of the two arms do not match.

    Item ids come from the run. User ids come from all users of both arms, because the few users of
    the run may match by chance.
    """
    mismatches = []
    if tables is not None:
        for arm, listed in tables.listed.items():
            mismatch = compare_listed_users(sources, arm, tables.panel, listed)
            if mismatch is not None:
                mismatches.append(mismatch)
    for mismatch in run.id_mismatches:
        if mismatch.ids is IdKind.ITEM or run.unpaired is not None:
            mismatches.append(mismatch)
    return tuple(mismatches)


def _find_unmatched(
    comparison: Comparison, sources: ComparisonSources, slot: datetime
) -> tuple[UnmatchedName, ...]:
    """Return the segments and matchers in the configuration that match nothing."""
    if not sources.dimensions:
        return find_unmatched(comparison, (ALL,))
    everybody = replace(comparison, measuring=replace(comparison.measuring, sample=None))
    try:
        segments = draw_panel(everybody, sources, slot, _WAIT_S).segments
    except (ConfigError, SourceError):  # reported elsewhere
        return ()
    return find_unmatched(comparison, segments)
