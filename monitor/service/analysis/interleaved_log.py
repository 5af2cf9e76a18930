"""Reads a log of interleaved lists, and measures which arm users prefer."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.measures.reading.ids import id_column
from monitor.measures.reading.unreadable_values import Tally
from monitor.model.errors import InputError
from monitor.model.instants import utc_now
from monitor.model.unreadable import ColumnKind, require_readable
from monitor.sources.file import FileUsersOptions
from monitor.sources.file.source import FileOutcomes
from monitor.sources.lookup_tables import ROW_COUNT, add_outcomes, user_sums
from monitor.statistics.unpaired.preference import Preference, measure_preference


def compare_teams(
    log: FileUsersOptions, team: str, click: str, teams: tuple[str, str]
) -> Preference:
    """Compare the users' clicks on the items of both teams.

    A row has a user, the team of an item, and whether the user clicked the item. ``team`` and
    ``click`` are the names of its columns. ``teams`` are the values of the baseline and of the
    candidate. Raises SourceError if the log cannot be read, and InputError if a team has no row.
    """
    slot = utc_now()
    source = FileOutcomes(log)
    tally = Tally(source.where(slot))
    parts = dict[str, list[pd.DataFrame]]({value: [] for value in teams})
    rows_of_team = dict.fromkeys(teams, 0)
    for batch in source.batches(slot, tuple(dict.fromkeys((log.user, team, click)))):
        users = tally.users(batch[log.user], log.user)
        names = id_column(batch[team], team, tally.where).cast(pa.large_string())
        counts = np.asarray(batch[ROW_COUNT])
        for value in teams:
            is_of_team = pc.is_in(names, value_set=pa.array([value], pa.large_string()))
            rows = np.where(is_of_team.to_numpy(zero_copy_only=False), counts, 0)
            rows_of_team[value] += int(rows.sum())
            of_team = {**batch, ROW_COUNT: rows}
            clicks = add_outcomes(users, of_team, (click,), tally, ColumnKind.COUNTS)
            parts[value].append(clicks)
    require_readable(tally.unreadable, log.max_unreadable)
    for value, count in rows_of_team.items():
        if not count:
            raise InputError(f"{tally.where} has no row whose {team} is {value!r}: correct --teams")
    # Both have the same users, because a row of the other team counts as no row.
    sums = [user_sums(parts[value], (click,), tally).sums[click].to_numpy() for value in teams]
    return measure_preference(*sums)
