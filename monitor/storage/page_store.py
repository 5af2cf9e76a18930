"""SqlPageStore runs the queries of web pages. Each query uses an index."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    and_,
    case,
    exists,
    func,
    or_,
    select,
)

from monitor.model.alerts import State, Transition, normal_band
from monitor.model.explanation import Explanation
from monitor.model.pages import (
    IncidentFilter,
    IncidentHistory,
    IncidentStart,
    ReceiverAnswer,
    SegmentMeans,
    SeriesKey,
    SeriesPoint,
    UserLists,
    UserRun,
)
from monitor.model.rankings import CoverageRow
from monitor.model.rules import Severity
from monitor.model.runs import Histogram, Run, RunStatus
from monitor.storage.alert_states import IS_END, IS_START, is_start
from monitor.storage.list_pieces import last_run_with_lists, lists_of_user, onset_of
from monitor.storage.partitions import utc_day
from monitor.storage.rows import from_row, from_rows, is_sqlite, read_first
from monitor.storage.run_results import (
    RUN_ROWS,
    coverage_by_run,
    explanations_by_run,
)
from monitor.storage.tables.alert_tables import alert_states, deliveries, notifications, transitions
from monitor.storage.tables.run_tables import (
    SCORE_COLUMNS,
    evidence,
    expectations,
    runs,
    score_places,
    scores,
    summaries,
)
from monitor.storage.transactions import DatabasePart

_IS_FINISHED = runs.c.status != RunStatus.RUNNING
_MOST_TRANSITIONS = 500


class SqlPageStore(DatabasePart):
    """Reads data for people: series over runs, single users, incidents. Changes nothing."""

    def neighbours(self, comparison: str, slot: datetime) -> tuple[Run | None, Run | None]:
        """Return the finished runs before and after this slot."""
        finished = RUN_ROWS.where(runs.c.comparison == comparison, _IS_FINISHED).limit(1)
        newest_earlier = finished.where(runs.c.slot < slot).order_by(runs.c.slot.desc())
        oldest_later = finished.where(runs.c.slot > slot).order_by(runs.c.slot)
        with self._database.read() as connection:
            before = read_first(Run, connection, newest_earlier)
            return before, read_first(Run, connection, oldest_later)

    def series(
        self,
        series: SeriesKey,
        *,
        alert: str | None,
        since: datetime,
        until: datetime,
        max_points: int,
    ) -> tuple[SeriesPoint, ...]:
        """Return finished runs from ``since`` to ``until``, oldest first.

        Each run has the values that the rule ``alert`` expected. If there are more than
        ``max_points`` runs, only the newest run and one run of each group of neighbouring runs are
        returned. A group's run is one without a mean, if there is one. Otherwise it is the run with
        the lowest mean.
        """
        comparison, metric, segment = series
        is_measured = and_(
            summaries.c.run_id == runs.c.id,
            summaries.c.segment == segment,
            summaries.c.metric == metric,
        )
        is_expected = and_(
            expectations.c.run_id == runs.c.id,
            expectations.c.segment == segment,
            expectations.c.alert == (alert or ""),  # no alert has an empty name
        )
        is_wanted = and_(
            runs.c.comparison == comparison,
            _IS_FINISHED,
            runs.c.slot.between(since, until),
        )
        # The runs to show are chosen by the means of all runs of the period. A subquery reads the
        # means. For a join, PostgreSQL would start parallel processes, which is slower.
        mean = select(summaries.c.mean).where(is_measured).scalar_subquery()
        runs_of_period = select(
            runs.c.id,
            mean.label("mean"),
            func.row_number().over(order_by=runs.c.slot).label("number"),
            func.count().over().label("total"),
        ).where(is_wanted)
        # The other figures are read for the shown runs only.
        points: Select[Any] = (
            select(
                runs.c.id.label("run_id"),
                runs.c.slot,
                runs.c.status,
                summaries.c.mean,
                summaries.c.standard_error,
                summaries.c.n,
                expectations.c.expected,
                # The column's name in the database is ``limit_value``.
                expectations.c.limit.label("limit"),
                expectations.c.opposite,
                runs.c.config_hash,
                runs.c.k,
                runs.c.models,
            )
            .outerjoin(summaries, is_measured)
            .outerjoin(expectations, is_expected)
            .where(runs.c.id.in_(_runs_to_show(runs_of_period, max_points)))
            .order_by(runs.c.slot)
        )
        return tuple(map(_to_point, self._database.rows(points)))

    def histograms(
        self,
        run_ids: Sequence[int],
        metric: str,
        segment: str,
    ) -> Mapping[int, Histogram]:
        """Return the histogram of the segment's scores in each run, by the run's number.

        Runs without a histogram are left out.
        """
        query = select(summaries.c.run_id, summaries.c.histogram).where(
            summaries.c.run_id.in_(run_ids),
            summaries.c.segment == segment,
            summaries.c.metric == metric,
        )
        return {row.run_id: row.histogram for row in self._database.rows(query)}

    def coverage(self, run_ids: Sequence[int], segment: str) -> Mapping[int, CoverageRow]:
        """Return the coverage of the segment in each run, by the run's number.

        Runs without coverage are left out.
        """
        with self._database.read() as connection:
            by_run = coverage_by_run(connection, run_ids, segment=segment)
        return {run_id: coverage.all for run_id, coverage in by_run.items()}

    def segments(
        self,
        comparison: str,
        metric: str,
        *,
        until: datetime,
        runs: int,
    ) -> tuple[SegmentMeans, ...]:
        """Return the means of every segment in the newest ``runs`` runs with status ok.

        The segments are in the order in which they were stored.
        """
        with self._database.read() as connection:
            # The newest run comes first.
            run_ids = connection.scalars(_select_newest_ok(comparison, until, runs)).all()
            columns = (summaries.c.run_id, summaries.c.segment, summaries.c.mean)
            is_wanted = and_(summaries.c.run_id.in_(run_ids), summaries.c.metric == metric)
            query = select(*columns).where(is_wanted).order_by(summaries.c.position)
            rows = connection.execute(query).all()
            coverage_of_newest = coverage_by_run(connection, run_ids[:1])
        means: dict[str, dict[int, float | None]] = defaultdict(dict)
        for run_id, segment, mean in rows:
            means[segment][run_id] = mean
        users_by_segment = {}
        # There is no coverage if there is no run.
        for coverage in coverage_of_newest.values():
            users_by_segment = {row.segment: row.paired for row in coverage.rows}
        segment_means = []
        for segment, mean_by_run in means.items():
            means_from_oldest = tuple(mean_by_run.get(run_id) for run_id in reversed(run_ids))
            users = users_by_segment.get(segment, 0)
            segment_means.append(SegmentMeans(segment=segment, n=users, means=means_from_oldest))
        return tuple(segment_means)

    def means(self, run_id: int) -> Mapping[tuple[str, str], float | None]:
        """Return the mean of each summary of the run, by segment and metric."""
        query = select(summaries.c.segment, summaries.c.metric, summaries.c.mean).where(
            summaries.c.run_id == run_id
        )
        return {(row.segment, row.metric): row.mean for row in self._database.rows(query)}

    def explanation(self, run_id: int) -> Explanation | None:
        """Return the explanation of why the run's mean fell, if it is stored."""
        with self._database.read() as connection:
            return explanations_by_run(connection, [run_id]).get(run_id)

    def changes(
        self,
        comparison: str,
        segment: str | None,
        *,
        since: datetime,
        until: datetime,
    ) -> tuple[Transition, ...]:
        """Return the starts and ends of firings in these slots, in the order of storing.

        ``segment`` None selects all segments.
        """
        query = (
            select(transitions)
            .where(
                transitions.c.comparison == comparison,
                transitions.c.slot.between(since, until),
                or_(IS_START, IS_END),
            )
            .order_by(transitions.c.id)
        )
        if segment is not None:
            query = query.where(transitions.c.segment == segment)
        return from_rows(Transition, self._database.rows(query))

    def user_scores(
        self,
        comparison: str,
        user: str,
        *,
        until: datetime,
        runs: int,
    ) -> tuple[UserRun, ...]:
        """Return the user's scores in the newest ``runs`` runs with status ok, oldest first.

        Runs that did not store the user's scores are left out.
        """
        by_slot: dict[datetime, dict[str, float | None]] = defaultdict(dict)
        with self._database.read() as connection:
            query = _scores_of_user(connection, comparison, user, until=until, max_runs=runs)
            for row in connection.execute(query):
                # The metric's score is in the column with the number ``place``.
                score = getattr(row, f"v{row.place}")
                is_defined = score is not None and not math.isnan(score)
                by_slot[row.slot][row.metric] = score if is_defined else None
        return tuple(UserRun(slot=slot, scores=by_slot[slot]) for slot in sorted(by_slot))

    def user_lists(self, run_id: int, user: str) -> UserLists | None:
        """Return both lists of the user, from the run's evidence or its stored lists.

        Returns None if they are not stored.
        """
        query: Select[Any] = select(evidence.c.baseline, evidence.c.candidate).where(
            evidence.c.run_id == run_id, evidence.c.user == user
        )
        with self._database.read() as connection:
            lists = read_first(UserLists, connection, query)
            return lists or lists_of_user(connection, run_id, user)

    def former_lists(
        self,
        comparison: str,
        user: str,
        slot: datetime,
    ) -> tuple[datetime | None, UserLists | None]:
        """Return the slot of an earlier run, and the user's lists in this run.

        It is the last run with stored lists before this slot and before the current alerts began.
        Both are None if there is no such run, or if the user has no lists in it.
        """
        with self._database.read() as connection:
            # Lists from before the alerts do not have the fault that the alerts report.
            onset = onset_of(connection, comparison) or slot
            run = last_run_with_lists(connection, comparison, min(slot, onset))
            if run is not None:
                lists = lists_of_user(connection, run.id, user)
                if lists is not None:
                    return run.slot, lists
        return None, None

    def incident(self, key: str) -> IncidentHistory:
        """Return the history of the incident with this key.

        If the incident has very many transitions, only the first are returned. The history is empty
        for an unknown key.
        """
        is_of_incident = transitions.c.incident == key
        first_transitions = (
            select(transitions)
            .where(is_of_incident)
            .order_by(transitions.c.id)
            .limit(_MOST_TRANSITIONS)
        )
        stored_answers: Select[Any] = (
            select(
                transitions.c.id,
                deliveries.c.receiver,
                notifications.c.at,
                notifications.c.status,
                notifications.c.reason,
            )
            .join(deliveries, transitions.c.id == deliveries.c.transition_id)
            .join(notifications, notifications.c.delivery_id == deliveries.c.id)
            .where(is_of_incident)
            .order_by(notifications.c.id)
        )
        with self._database.read() as connection:
            transition_rows = connection.execute(first_transitions).all()
            answer_rows = connection.execute(stored_answers).all()
        position_of = {row.id: position for position, row in enumerate(transition_rows)}
        positions_by_answer: dict[ReceiverAnswer, list[int]] = {}
        for row in answer_rows:
            answer = from_row(ReceiverAnswer, row, positions=())
            # Answers about transitions beyond the limit are returned too, without positions.
            positions = positions_by_answer.setdefault(answer, [])
            if row.id in position_of:
                positions.append(position_of[row.id])
        answers = []
        for answer, positions in positions_by_answer.items():
            answers.append(replace(answer, positions=tuple(positions)))
        return IncidentHistory(
            transitions=from_rows(Transition, transition_rows), answers=tuple(answers)
        )

    def incidents(
        self,
        wanted: IncidentFilter,
        *,
        is_firing: bool,
        before_number: int | None,
        limit: int,
    ) -> tuple[IncidentStart, ...]:
        """Return the newest incidents that fire, or that have ended, at most ``limit``.

        Only incidents with a number below ``before_number`` are returned.
        """
        key = transitions.c.incident
        firing = select(alert_states.c.incident).where(
            alert_states.c.state == State.FIRING, alert_states.c.incident.is_not(None)
        )
        earlier = transitions.alias()
        has_earlier = exists().where(
            earlier.c.incident == transitions.c.incident,
            earlier.c.id < transitions.c.id,
            is_start(earlier),
        )
        has_wanted_state = key.in_(firing) if is_firing else key.not_in(firing)
        query = select(transitions.c.id, key, transitions.c.at).where(
            IS_START,
            ~has_earlier,
            has_wanted_state,
            *_filter_conditions(wanted),
        )
        if before_number is not None:
            query = query.where(transitions.c.id < before_number)
        newest = query.order_by(transitions.c.id.desc()).limit(limit)
        rows = self._database.rows(newest)
        return tuple(IncidentStart(number=number, key=key, at=at) for number, key, at in rows)

    def incident_changes(self, keys: Sequence[str]) -> tuple[Transition, ...]:
        """Return the starts and ends of all firings of these incidents, in the order of storing."""
        query = select(transitions).where(or_(IS_START, IS_END)).order_by(transitions.c.id)
        is_wanted = transitions.c.incident.in_(keys)
        return from_rows(Transition, self._database.rows(query.where(is_wanted)))


def _filter_conditions(wanted: IncidentFilter) -> list[ColumnElement[bool]]:
    """Return the SQL conditions for the incidents that the filter selects.

    The conditions are about ``transitions``, from which the caller selects the first start of each
    incident. The severity of an incident is the highest severity of all its starts. The filter's
    text is searched in all its transitions.
    """
    conditions: list[ColumnElement[bool]] = []
    if wanted.comparison is not None:
        conditions.append(transitions.c.comparison == wanted.comparison)
    if wanted.severity is not None:
        most_severe_first = list(Severity)
        more_severe = most_severe_first[: most_severe_first.index(wanted.severity)]
        start = transitions.alias()
        worse_start = transitions.alias()
        conditions += [
            _incident_has(start, is_start(start), start.c.severity == wanted.severity),
            ~_incident_has(
                worse_start, is_start(worse_start), worse_start.c.severity.in_(more_severe)
            ),
        ]
    if wanted.text:
        other = transitions.alias()
        columns = (other.c.alert, other.c.segment, other.c.reason, other.c.explanation)
        matches = [column.icontains(wanted.text, autoescape=True) for column in columns]
        conditions.append(_incident_has(other, or_(*matches)))
    return conditions


def _incident_has(other: FromClause, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that any transition of the incident meets all ``conditions``.

    ``other`` is the alias of ``transitions`` that the conditions use.
    """
    return exists().where(other.c.incident == transitions.c.incident, *conditions)


def _runs_to_show(runs_of_period: Select[Any], max_points: int) -> Select[Any]:
    """Select the ids of at most ``max_points`` runs: the newest run, and one of each group of runs.

    A group consists of consecutive runs. If a run of the group has no mean, it is selected.
    Otherwise the run with the lowest mean is selected. ``runs_of_period`` has the columns ``id``,
    ``mean``, ``number`` (from 1, by slot) and ``total`` (the number of runs).
    """
    run = runs_of_period.subquery().c
    # The newest run is the group -1. The other runs are divided into the remaining groups.
    max_groups = max_points - 1
    other_runs = run.total - 1
    group_size = (other_runs + max_groups - 1) // max_groups  # rounded up
    group = case((run.number == run.total, -1), else_=(run.number - 1) // group_size)
    # False sorts before True, so runs without a mean come first.
    rank = func.row_number().over(partition_by=group, order_by=(run.mean.is_not(None), run.mean))
    ranked_run = select(run.id, rank.label("rank")).subquery().c
    return select(ranked_run.id).where(ranked_run.rank == 1)


def _to_point(row: Row[Any]) -> SeriesPoint:
    """Return the row of a run as a point, with the lowest and the highest normal value."""
    low, high = normal_band(row.expected, row.limit, row.opposite)
    return from_row(SeriesPoint, row, n=row.n or 0, low=low, high=high)


def _select_newest_ok(comparison: str, until: datetime, max_runs: int) -> Select[Any]:
    """Select id and slot of the comparison's newest ok runs until this slot, newest first."""
    is_wanted = and_(
        runs.c.comparison == comparison, runs.c.status == RunStatus.OK, runs.c.slot <= until
    )
    newest_first = select(runs.c.id, runs.c.slot).where(is_wanted).order_by(runs.c.slot.desc())
    return newest_first.limit(max_runs)


def _scores_of_user(
    connection: Connection,
    comparison: str,
    user: str,
    *,
    until: datetime,
    max_runs: int,
) -> Select[Any]:
    """Select the user's scores in the newest ok runs, with a row for each run and metric.

    A row of ``scores`` has the user's scores for several metrics, in the columns v1, v2 and so on.
    ``score_places`` has the number of each metric's column: ``place``. The caller uses it to find
    the metric's score in the selected row.
    """
    newest = _select_newest_ok(comparison, until, max_runs).subquery()
    is_row_of_user = and_(
        scores.c.run_id == score_places.c.run_id,
        scores.c.part == score_places.c.part,
        scores.c.user_id == user,
    )
    if not is_sqlite(connection):
        # The day lets PostgreSQL read one partition only.
        is_row_of_user = and_(is_row_of_user, scores.c.day == utc_day(runs.c.slot))
    values = [scores.c[f"v{number}"] for number in range(1, SCORE_COLUMNS + 1)]
    return (
        select(runs.c.slot, score_places.c.metric, score_places.c.place, *values)
        .join(newest, newest.c.id == runs.c.id)
        .join(score_places, score_places.c.run_id == runs.c.id)
        .join(scores, is_row_of_user)
    )
