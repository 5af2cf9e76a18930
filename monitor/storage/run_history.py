"""SqlHistory reads the results of earlier runs, for later runs and for people."""

# ruff: noqa: D102 - the methods of the port have their docstrings there

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, and_, bindparam, column, func, select, values

from monitor.model.alerts import Expectation, Transition
from monitor.model.immutable import extend
from monitor.model.memory import Memory, MemoryRequest
from monitor.model.rankings import ALL
from monitor.model.runs import (
    RUN_MARK,
    ArmScore,
    Evidence,
    FinishedRun,
    KeptLists,
    LatestRun,
    Run,
    RunStatus,
    Scores,
    Summary,
    Watermark,
)
from monitor.storage import run_results
from monitor.storage.alert_states import IS_END, read_states
from monitor.storage.list_pieces import HAS_LISTS, load_lists
from monitor.storage.rows import from_rows, read_first
from monitor.storage.run_memory import read_memory
from monitor.storage.tables.alert_tables import transitions
from monitor.storage.tables.run_tables import runs, summaries
from monitor.storage.transactions import DatabasePart
from monitor.storage.user_scores import scores_of_run

WAITS_FOR_RELEVANCE = and_(
    runs.c.status == RunStatus.OK,
    runs.c.labels_until.is_not(None),
    runs.c.labelled_at.is_(None),
    HAS_LISTS,
)
"""Whether a run has no metrics of relevance yet and can still get them."""

_WEEK = timedelta(days=7)
RECENT_RUNS = 40
"""How many means of recent runs are returned together with a comparison's newest run.

Pages that list many comparisons show these means.
"""


# Each run executes these statements, and building a statement takes longer than executing it.
_IS_OF_COMPARISON = runs.c.comparison == bindparam("comparison")
_NEWEST = run_results.RUN_ROWS.where(_IS_OF_COMPARISON).order_by(runs.c.slot.desc()).limit(1)
_NEWEST_FINISHED = _NEWEST.where(runs.c.status != RunStatus.RUNNING)
_NEWEST_FINISHED_UNTIL = _NEWEST_FINISHED.where(runs.c.slot <= bindparam("until"))
_NEWEST_OK = (
    select(runs)
    .where(_IS_OF_COMPARISON, runs.c.status == RunStatus.OK)
    .order_by(runs.c.slot.desc())
)
_LAST_OK = _NEWEST_OK.limit(1)
_FIGURES_OF_COMPARISON = select(
    _LAST_OK.with_only_columns(runs.c.slot).scalar_subquery().label("last_ok_slot"),
    _LAST_OK.with_only_columns(runs.c.finished_at).scalar_subquery().label("last_ok_at"),
    select(func.min(runs.c.slot)).where(_IS_OF_COMPARISON).scalar_subquery().label("first_slot"),
    select(func.count())
    .select_from(runs)
    .where(WAITS_FOR_RELEVANCE, _IS_OF_COMPARISON)
    .scalar_subquery()
    .label("unlabelled"),
)
_RECENT_MEANS = (
    _NEWEST_OK.where(runs.c.slot <= bindparam("until"))
    .limit(RECENT_RUNS)
    .with_only_columns(runs.c.slot, summaries.c.mean)
    .outerjoin(
        summaries,
        and_(
            summaries.c.run_id == runs.c.id,
            summaries.c.segment == ALL,
            summaries.c.metric == bindparam("metric"),
        ),
    )
)
_LAST_END_OF_FIRING = (
    select(transitions)
    .where(
        transitions.c.comparison == bindparam("comparison"),
        IS_END,
        transitions.c.slot.between(bindparam("first"), bindparam("last")),
    )
    .order_by(transitions.c.id.desc())
    .limit(1)
)


class SqlHistory(DatabasePart):
    """Implements the port History, with more methods that only the service uses."""

    def memory_of(self, request: MemoryRequest) -> Memory:
        """Return what a run needs from earlier runs. `read_memory` reads it."""
        return read_memory(self._database, request)

    def latest(
        self, comparisons: Sequence[str], *, until: datetime | None = None
    ) -> tuple[LatestRun, ...]:
        """Return the newest finished run of each named comparison.

        A run is finished if its status is not ``running``. Runs of slots after ``until`` are
        ignored, because they were stored while a clock was ahead.
        """
        query = _NEWEST_FINISHED if until is None else _NEWEST_FINISHED_UNTIL
        newest = []
        with self._database.read() as connection:
            for name in dict.fromkeys(comparisons):
                run = read_first(Run, connection, query, {"comparison": name, "until": until})
                if run is not None:
                    newest.append(run)
            ids = [run.id for run in newest]
            expectations = run_results.results_by_run(connection, Expectation, ids)
            return tuple(
                _latest(connection, run, expectations.get(run.id, ()))
                for run in _with_results(connection, newest)
            )

    def changes(
        self,
        comparisons: Sequence[str],
        seen: Watermark,
        *,
        until: datetime,
    ) -> tuple[frozenset[str], Watermark]:
        """Return the comparisons that have changed since ``seen``, and the new watermark.

        A watermark says what the caller has read: some values of each comparison's newest run, and
        the id of the newest transition. A comparison has changed if it has other values or a newer
        transition. Deletions, and labels of older runs, are not detected.
        """
        is_new = transitions.c.id > seen.transition
        with_new_transition = select(transitions.c.comparison).where(is_new).distinct()
        with self._database.read() as connection:
            run_values = _newest_run_values(connection, comparisons, until)
            last_id: int = connection.scalar(select(func.max(transitions.c.id))) or 0
            changed = set(connection.scalars(with_new_transition))
        # The last id is lower only in another database, such as a restored backup.
        is_other_database = last_id < seen.transition
        for name in comparisons:
            if is_other_database or run_values.get(name) != seen.runs.get(name):
                changed.add(name)
        watermark = Watermark(runs=run_values, transition=last_id)
        return frozenset(changed.intersection(comparisons)), watermark

    def newest(self, comparison: str) -> Run | None:
        """Return the newest run of the comparison, with any status. None if it has no run."""
        with self._database.read() as connection:
            return read_first(Run, connection, _NEWEST, {"comparison": comparison})

    def runs(
        self,
        *,
        comparison: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Run, ...]:
        """Return stored runs with any status from ``since`` to ``until``, newest slot first."""
        query = run_results.RUN_ROWS.order_by(runs.c.slot.desc(), runs.c.comparison).limit(limit)
        if comparison is not None:
            query = query.where(runs.c.comparison == comparison)
        if since is not None:
            query = query.where(runs.c.slot >= since)
        if until is not None:
            query = query.where(runs.c.slot <= until)
        return from_rows(Run, self._database.rows(query))

    def finished_runs(
        self,
        comparison: str,
        *,
        after: datetime | None,
        limit: int,
    ) -> tuple[FinishedRun, ...]:
        """Return at most ``limit`` finished runs with slots after ``after``, oldest first."""
        query = (
            run_results.RUN_ROWS.where(
                runs.c.comparison == comparison, runs.c.status != RunStatus.RUNNING
            )
            .order_by(runs.c.slot)
            .limit(limit)
        )
        if after is not None:
            query = query.where(runs.c.slot > after)
        with self._database.read() as connection:
            rows = connection.execute(query)
            return _with_results(connection, from_rows(Run, rows))

    def finished_run(self, run_id: int) -> FinishedRun | None:
        """Return one run with its results, or None if there is no such run.

        If this version cannot read the explanation, it is left out.
        """
        with self._database.read() as connection:
            rows = connection.execute(run_results.RUN_ROWS.where(runs.c.id == run_id))
            finished_runs = _with_results(connection, from_rows(Run, rows))
        return finished_runs[0] if finished_runs else None

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        """Return the evidence of one run: first the worst users, then the representative users."""
        with self._database.read() as connection:
            return run_results.results_by_run(connection, Evidence, [run_id]).get(run_id, ())

    def kept_lists(self, run_id: int) -> KeptLists | None:
        return load_lists(self._database, run_id)

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        with self._database.read() as connection:
            return scores_of_run(connection, run_id, metrics)


def _with_results(connection: Connection, finished: Sequence[Run]) -> tuple[FinishedRun, ...]:
    """Return these runs with coverage, summaries, arm scores and explanation, in the same order."""
    ids = [run.id for run in finished]
    coverage_by_run = run_results.coverage_by_run(connection, ids)
    summaries_by_run = run_results.results_by_run(connection, Summary, ids)
    arm_scores_by_run = run_results.results_by_run(connection, ArmScore, ids)
    explanations = run_results.explanations_by_run(connection, ids)
    finished_runs = []
    for run in finished:
        finished_run = extend(
            FinishedRun,
            run,
            coverage=coverage_by_run.get(run.id),
            summaries=summaries_by_run.get(run.id, ()),
            arm_scores=arm_scores_by_run.get(run.id, ()),
            explanation=explanations.get(run.id),
        )
        finished_runs.append(finished_run)
    return tuple(finished_runs)


def _newest_run_values(
    connection: Connection,
    comparisons: Sequence[str],
    until: datetime,
) -> dict[str, tuple[object, ...]]:
    """Return the values of the columns `RUN_MARK` in each comparison's newest finished run.

    The values change if there is another newest run, or if the run has changed.
    """
    if not comparisons:
        return {}
    names = [(name,) for name in dict.fromkeys(comparisons)]
    wanted = values(column("name", runs.c.comparison.type), name="names").data(names).cte("wanted")
    is_finished = and_(
        runs.c.comparison == wanted.c.name,
        runs.c.status != RunStatus.RUNNING,
        runs.c.slot <= until,
    )
    # The database looks up each name in the index. A grouped query would read all runs.
    newest_id = (
        select(runs.c.id).where(is_finished).order_by(runs.c.slot.desc()).limit(1).correlate(wanted)
    )
    newest_run = runs.alias()
    query = select(newest_run.c.comparison, *(newest_run.c[name] for name in RUN_MARK)).join_from(
        wanted, newest_run, newest_run.c.id == newest_id.scalar_subquery()
    )
    return {name: tuple(run_values) for name, *run_values in connection.execute(query)}


def _latest(
    connection: Connection,
    run: FinishedRun,
    expectations: tuple[Expectation, ...],
) -> LatestRun:
    """Return a comparison's newest run with the alert states, and with facts about earlier runs.

    ``expectations`` are the expectations of ``run``.
    """
    figures = connection.execute(_FIGURES_OF_COMPARISON, {"comparison": run.comparison}).one()
    return extend(
        LatestRun,
        run,
        states=read_states(connection, run.comparison),
        last_ok_slot=figures.last_ok_slot,
        last_ok_at=figures.last_ok_at,
        expectations=expectations,
        unlabelled=figures.unlabelled,
        first_slot=figures.first_slot,
        recent=_recent_means(connection, run),
        last_end=_last_end_of_firing(connection, run),
    )


def _last_end_of_firing(connection: Connection, run: Run) -> Transition | None:
    """Return the last transition that ended a firing in the week before the run, or None."""
    week = {"comparison": run.comparison, "first": run.slot - _WEEK, "last": run.slot}
    return read_first(Transition, connection, _LAST_END_OF_FIRING, week)


def _recent_means(
    connection: Connection, run: FinishedRun
) -> tuple[tuple[datetime, float | None], ...]:
    """Return the slot and the mean of each of the newest ok runs until ``run``, oldest first.

    The means are those of the leading metric of ``run`` over all users. A mean is None if an
    earlier run did not measure the metric. Returns nothing if ``run`` has no leading metric.
    """
    metric = run.leading_metric
    if metric is None:
        return ()
    until_run = {"comparison": run.comparison, "until": run.slot, "metric": metric}
    newest_first = connection.execute(_RECENT_MEANS, until_run).all()
    return tuple((row.slot, row.mean) for row in reversed(newest_first))
