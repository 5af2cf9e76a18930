"""The users whose lists a run shows or stores, as an Arrow table with one row for each user.

| column | content |
|---|---|
| ``user``, ``segments`` | the user, and the numbers of the user's segments |
| ``baseline``, ``candidate`` | both lists, cut to k and without duplicates |
| ``baseline_scores``, ``candidate_scores`` | the models' scores, if an arm has any |
| ``score:METRIC`` | the score by this metric |
| ``is_sampled`` | whether the user is in the sample |
| ``is_kept`` | whether the run stores the user's lists |
| ``worst_similarity`` | the similarity if it is one of the lowest; null for any other user |
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from monitor.measures.kernels.ragged import offsets_of
from monitor.measures.pairing.ids import id_values
from monitor.measures.pairing.list_tables import (
    list_column,
    rankings,
    rows_by_segment,
    segment_column,
    user_column,
    user_index,
)
from monitor.measures.sampling import select_kept
from monitor.measures.summaries import SegmentRows, worst_rows
from monitor.model.arrays import Flags, Floats, Ids
from monitor.model.rankings import Arm, Pairing
from monitor.model.rules import Comparison
from monitor.model.runs import Evidence, EvidenceKind, KeptLists, Scores

_SCORE = "score:"
_MOST_SHOWN = 0.8
"""If more than this share of a joined table's users is shown, the other users stay in it too."""


def show_users(  # noqa: PLR0913 - the columns of the table
    pairing: Pairing,
    scores: Scores,
    segments: SegmentRows,
    names: Sequence[str],
    *,
    is_sampled: Flags,
    is_kept: Flags,
    worst_similarity: Floats,
) -> pa.Table:
    """Make the table of these paired users. Leaves out users that are not shown or stored.

    ``segments`` has the rows of the users in each segment, and ``names`` are the names of all
    segments. The last three become columns. In ``worst_similarity`` a NaN becomes a null.
    """
    rows = np.flatnonzero(is_sampled | is_kept | ~np.isnan(worst_similarity))
    batch = replace(pairing.batch, weights=None, labels=None).take(rows)
    columns = {
        "user": user_column(scores.users[rows]),
        "segments": segment_column(segments, names, len(is_kept)).take(pa.array(rows)),
    }
    for arm in Arm:
        codes, lengths = batch.of(arm)
        is_item = codes >= 0
        items: Ids = codes[is_item]
        if pairing.vocabulary is not None:
            items = id_values(pairing.vocabulary.take(items))
        columns[arm] = list_column(offsets_of(lengths), items)
        if batch.scores is not None:
            item_scores = batch.scores.of(arm)[is_item]
            columns[f"{arm}_scores"] = list_column(offsets_of(lengths), item_scores)
    for name, values in scores.by_metric.items():
        columns[_SCORE + name] = pa.array(values[rows])
    columns["is_sampled"] = pa.array(is_sampled[rows])
    columns["is_kept"] = pa.array(is_kept[rows])
    columns["worst_similarity"] = pa.array(worst_similarity[rows], from_pandas=True)
    return pa.table(columns)


def join_users(tables: Sequence[pa.Table], comparison: Comparison) -> pa.Table:
    """Join tables of different users into one table.

    The users to store and the worst users are selected again, because each table has its own. The
    result may have a few users that are not shown or stored.
    """
    if len(tables) == 1:
        return tables[0]
    for arm in Arm:
        tables = _with_equal_types(tables, arm)
    users = pa.concat_tables(tables, promote_options="permissive")
    is_kept = users["is_kept"].to_numpy().copy()
    candidates = user_index(users["user"].filter(is_kept))
    is_kept[is_kept] = select_kept(candidates, comparison.measuring.keep_lists, comparison)
    similarity = users["worst_similarity"].to_numpy()
    worst = worst_rows(similarity, user_index(users["user"]), comparison.measuring.evidence_users)
    worst_similarity = np.full(len(similarity), np.nan)
    worst_similarity[worst] = similarity[worst]
    selected = {
        "is_kept": pa.array(is_kept),
        "worst_similarity": pa.array(worst_similarity, from_pandas=True),
    }
    for name, column in selected.items():
        users = users.set_column(users.column_names.index(name), name, column)
    is_shown = users["is_sampled"].to_numpy() | is_kept | ~np.isnan(worst_similarity)
    # A few users that are not shown stay, because leaving them out would copy all lists.
    if np.count_nonzero(is_shown) > _MOST_SHOWN * len(is_shown):
        return users
    return users.filter(is_shown)


def kept_lists(users: pa.Table, names: Sequence[str]) -> KeptLists:
    """Return the lists of all users of a table. ``names`` are the names of all segments."""
    baseline, candidate = (rankings(users, arm, f"{arm}_scores") for arm in Arm)
    segments = rows_by_segment(users["segments"], names)
    return KeptLists(baseline=baseline, candidate=candidate, segments=segments)


def scores_of(users: pa.Table) -> Scores:
    """Return the scores of all users of a table."""
    by_metric = {}
    for name in users.column_names:
        if name.startswith(_SCORE):
            by_metric[name.removeprefix(_SCORE)] = users[name].to_numpy()
    return Scores(users=user_index(users["user"]), by_metric=by_metric)


def evidence_of(users: pa.Table, kind: EvidenceKind) -> tuple[Evidence, ...]:
    """Return the lists and scores of all users of a table, in the table's order."""
    evidence = []
    for position, row in enumerate(users.to_pylist()):
        scores = {}
        for name, value in row.items():
            if name.startswith(_SCORE):
                is_known = value is not None and not np.isnan(value)
                scores[name.removeprefix(_SCORE)] = value if is_known else None
        evidence.append(
            Evidence(
                kind=kind,
                position=position,
                user=row["user"],
                baseline=tuple(map(str, row[Arm.BASELINE])),
                candidate=tuple(map(str, row[Arm.CANDIDATE])),
                scores=scores,
            )
        )
    return tuple(evidence)


def _with_equal_types(tables: Sequence[pa.Table], arm: Arm) -> Sequence[pa.Table]:
    """Return the tables. If one of them has the arm's items as texts, all of them have texts."""
    texts = pa.large_list(pa.large_string())
    if all(table.schema.field(arm).type != texts for table in tables):
        return tables
    converted = []
    for table in tables:
        index = table.column_names.index(arm)
        converted.append(table.set_column(index, arm.value, table[arm].cast(texts)))
    return converted
