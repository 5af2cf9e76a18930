"""The users whose lists a run shows or stores, as an Arrow table with one row for each user.

| column | content |
|---|---|
| ``user``, ``segments`` | the user, and the numbers of the user's segments |
| ``baseline``, ``candidate`` | both lists, cut to k and without duplicates |
| ``baseline_scores``, ``candidate_scores`` | the models' scores, if an arm has any |
| ``score:METRIC`` | the score by this metric |
| ``is_in_subset`` | whether the user is in the subset |
| ``is_stored`` | whether the run stores the user's lists |
| ``worst_similarity`` | the similarity if it is one of the lowest; null for any other user |
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.measures.kernels.ragged import offsets_of
from monitor.measures.pairing.ids import id_values
from monitor.measures.pairing.list_tables import (
    list_column,
    rankings,
    rows_by_segment,
    segment_column,
    sort_users,
    user_column,
)
from monitor.measures.reading.ids import user_index
from monitor.measures.sampling import select_kept
from monitor.measures.summaries import SegmentRows, representative_rows, worst_rows
from monitor.model.arrays import Flags, Floats, Ids
from monitor.model.rankings import Arm, Pairing
from monitor.model.rules import Comparison
from monitor.model.runs import Evidence, EvidenceKind, KeptLists, Scores
from monitor.model.statistics import parse_derived

_SCORE = "score:"
_MOST_TABLES = 16
"""As soon as there are this many tables of users, they are joined into one table."""
_MOST_SHOWN = 0.8
"""If more than this share of a joined table's users is shown, the other users stay in it too."""


def make_user_table(  # noqa: PLR0913 - the columns of the table
    pairing: Pairing,
    scores: Scores,
    segments: SegmentRows,
    segment_names: Sequence[str],
    *,
    is_in_subset: Flags,
    is_stored: Flags,
    worst_similarity: Floats,
) -> pa.Table:
    """Make the table of these paired users. Leaves out users that are not shown or stored.

    ``segments`` has the rows of the users in each segment, and ``segment_names`` names all
    segments. The last three become columns. ``is_stored`` marks users whose lists the run stores.
    ``worst_similarity`` is the similarity of the users with the least similar lists. It is NaN for
    other users, and becomes a null.
    """
    rows = np.flatnonzero(is_in_subset | is_stored | ~np.isnan(worst_similarity))
    batch = replace(pairing.batch, weights=None, labels=None).take(rows)
    columns = {
        "user": user_column(scores.users[rows]),
        "segments": segment_column(segments, segment_names, len(is_stored)).take(pa.array(rows)),
    }
    for arm in Arm:
        codes, lengths = batch.of(arm)
        is_item = codes >= 0
        items: Ids = codes[is_item]  # without a vocabulary, the codes are the ids
        if pairing.vocabulary is not None:
            items = id_values(pairing.vocabulary.take(codes[is_item]))
        columns[arm] = list_column(offsets_of(lengths), items)
        if batch.scores is not None:
            item_scores = batch.scores.of(arm)[is_item]
            columns[f"{arm}_scores"] = list_column(offsets_of(lengths), item_scores)
    for name, values in scores.by_metric.items():
        columns[_SCORE + name] = pa.array(values[rows])
    columns["is_in_subset"] = pa.array(is_in_subset[rows])
    columns["is_stored"] = pa.array(is_stored[rows])
    columns["worst_similarity"] = pa.array(worst_similarity[rows], from_pandas=True)
    return pa.table(columns)


def join_user_tables(tables: Sequence[pa.Table], comparison: Comparison) -> pa.Table:
    """Join tables of different users into one table.

    Each table has selected its own users to store and its own worst users, so both are selected
    again from these. The result may have a few users that are not shown or stored.
    """
    if len(tables) == 1:
        return tables[0]
    for arm in Arm:
        tables = _convert_items_to_texts(tables, arm)
    users = pa.concat_tables(tables, promote_options="permissive")
    was_stored = users["is_stored"].to_numpy()
    stored_users = user_index(users["user"].filter(was_stored))
    is_stored_again = select_kept(stored_users, comparison.measuring.keep_lists, comparison)
    is_stored = np.zeros(len(was_stored), dtype=bool)
    is_stored[np.flatnonzero(was_stored)[is_stored_again]] = True
    similarity = users["worst_similarity"].to_numpy()
    worst = worst_rows(similarity, user_index(users["user"]), comparison.measuring.evidence_users)
    worst_similarity = np.full(len(similarity), np.nan)
    worst_similarity[worst] = similarity[worst]
    new_columns = {
        "is_stored": pa.array(is_stored),
        "worst_similarity": pa.array(worst_similarity, from_pandas=True),
    }
    for name, column in new_columns.items():
        users = users.set_column(users.column_names.index(name), name, column)
    is_shown = users["is_in_subset"].to_numpy() | is_stored | ~np.isnan(worst_similarity)
    # Leaving out users copies all lists, so a few users that are not shown stay.
    if np.count_nonzero(is_shown) > _MOST_SHOWN * len(is_shown):
        return users
    return users.filter(is_shown)


def add_user_tables(
    tables: list[pa.Table], added: Sequence[pa.Table], comparison: Comparison
) -> None:
    """Add tables of other users to ``tables``. If there are many, one table replaces them."""
    tables += added
    if len(tables) >= _MOST_TABLES:
        tables[:] = [join_user_tables(tables, comparison)]


def lists_of_table(users: pa.Table, segment_names: Sequence[str]) -> KeptLists:
    """Return the lists of all users of a table. ``segment_names`` names all segments."""
    baseline, candidate = (rankings(users, arm, f"{arm}_scores") for arm in Arm)
    segments = rows_by_segment(users["segments"], segment_names)
    return KeptLists(baseline=baseline, candidate=candidate, segments=segments)


def scores_of_table(users: pa.Table) -> Scores:
    """Return the scores of all users of a table."""
    by_metric = {name: users[_SCORE + name].to_numpy() for name in _scored_series(users)}
    return Scores(users=user_index(users["user"]), by_metric=by_metric)


def stored_lists(users: pa.Table, segment_names: Sequence[str]) -> KeptLists:
    """Return the lists that the run stores. Segments without users are left out."""
    lists = lists_of_table(sort_users(users, users["is_stored"]), segment_names)
    segments = {name: rows for name, rows in lists.segments.items() if len(rows)}
    return replace(lists, segments=segments)


def worst_evidence(users: pa.Table, failed: Collection[str]) -> list[Evidence]:
    """Return the lists of the users with the least similar lists, the worst first.

    Scores by the ``failed`` metrics are left out.
    """
    worst = users.filter(users["worst_similarity"].is_valid())
    order = [("worst_similarity", "ascending"), ("user", "ascending")]
    return _evidence_of(worst.sort_by(order), EvidenceKind.WORST, failed)


def representative_evidence(
    users: pa.Table, scores: pd.Series, median: float, count: int, failed: Collection[str]
) -> list[Evidence]:
    """Return the lists of the ``count`` users with scores nearest to the median, nearest first.

    ``scores`` has the score of each user of the run's random subset. The worst users are left out,
    because `worst_evidence` returns them. Scores by the ``failed`` metrics are left out too.
    """
    is_worst = users["worst_similarity"].is_valid()
    worst_users = user_index(users["user"].filter(is_worst))
    values = np.where(scores.index.isin(worst_users), np.nan, scores.to_numpy())
    representative = user_column(scores.index[representative_rows(values, count, median)])
    # The table is filtered first, because `take` joins the table's chunks and so copies all lists.
    representative_users = users.filter(pc.is_in(users["user"], value_set=representative))
    # The users are taken in the order of ``representative``.
    nearest_first = representative_users.take(
        pc.index_in(representative, value_set=representative_users["user"])
    )
    return _evidence_of(nearest_first, EvidenceKind.REPRESENTATIVE, failed)


def _evidence_of(users: pa.Table, kind: EvidenceKind, failed: Collection[str]) -> list[Evidence]:
    """Return the lists and scores of all users of a table, in the table's order."""
    evidence = []
    for position, row in enumerate(users.to_pylist()):
        scores = {}
        for name in _scored_series(users):
            score = row[_SCORE + name]
            if parse_derived(name).metric not in failed:
                is_known = score is not None and not np.isnan(score)
                scores[name] = score if is_known else None
        user_evidence = Evidence(
            kind=kind,
            position=position,
            user=row["user"],
            baseline=tuple(map(str, row[Arm.BASELINE])),
            candidate=tuple(map(str, row[Arm.CANDIDATE])),
            scores=scores,
        )
        evidence.append(user_evidence)
    return evidence


def _scored_series(users: pa.Table) -> list[str]:
    """Return the names of the series of which the table has scores."""
    scored = [column for column in users.column_names if column.startswith(_SCORE)]
    return [column.removeprefix(_SCORE) for column in scored]


def _convert_items_to_texts(tables: Sequence[pa.Table], arm: Arm) -> Sequence[pa.Table]:
    """Convert the arm's items to texts in all tables, if one of the tables has texts."""
    texts = pa.large_list(pa.large_string())
    types = [table.schema.field(arm).type for table in tables]
    if texts not in types:
        return tables
    converted = []
    for table in tables:
        index = table.column_names.index(arm)
        converted.append(table.set_column(index, arm.value, table[arm].cast(texts)))
    return converted
