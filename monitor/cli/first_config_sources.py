"""Writes the sources of a first configuration as YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from monitor.cli.file_columns import (
    COLUMN_ADVICE,
    find_file_problem,
    find_segments,
    fitting_options,
    list_shapes,
    pick_column,
)
from monitor.cli.first_config_questions import (
    SOURCE_QUESTIONS,
    ListColumnNames,
    ListSource,
    ask_columns,
)
from monitor.cli.output import print_line
from monitor.model.column_names import (
    ITEM_COLUMNS,
    RANK_COLUMNS,
    USER_COLUMNS,
    match_column,
    write_absent,
)
from monitor.model.errors import InputError
from monitor.model.immutable import immutable
from monitor.model.instants import format_second

if TYPE_CHECKING:
    from monitor.service.analysis.log_comparison import LoggedTest
    from monitor.sources.file import FileSourceOptions

_PAIRED = """\
    baseline: # the lists in use{hint}
      {baseline}
    candidate: # the lists on trial
      {candidate}
{noise_floor}    users: {users}
"""
_UNPAIRED = """\
    unpaired: # each user is served by one arm only
      log: # the newest list of each user in the last day
        {log}
      arm: {arm} # column of the log
      baseline: {baseline}
      candidate: {candidate}
      split: {split} # planned shares of the users
      before: {before} # when the test began
      segments: {segments}
"""
_NOISE_FLOOR = """\
    noise_floor: # a second training of the baseline's model
      retrain: {retrained}
"""
_HINT = '. A new file each day? path: "lists-{slot:%Y-%m-%d}.csv"'
_SLOT_MARK = "{slot"
_USER_MARK = "{user}"
_WITH_USER = (ListSource.HTTP, ListSource.REDIS)


@immutable
class FirstLists:
    """The lists of a first configuration. Writes their sources as YAML."""

    kind: ListSource
    server: str | None
    columns: ListColumnNames
    in_order: bool  # the rows of a user are sorted, with the best item first
    must_exist: bool  # whether a missing file is an error
    reaches_person: bool  # whether a person can name columns

    def write_pair(
        self, baseline: str, candidate: str, retrained: str | None, users: str | None
    ) -> str:
        """Return the sources of a paired comparison.

        ``retrained`` are the lists of the baseline's second training. They must exist.
        """
        baseline_source = self._find_source(baseline, must_exist=self.must_exist)
        candidate_source = self._find_source(candidate, must_exist=self.must_exist)
        noise_floor = ""
        if retrained is not None:
            source = self._find_source(retrained, must_exist=True)
            noise_floor = _NOISE_FLOOR.format(retrained=write_yaml(source))
        return _PAIRED.format(
            hint=_HINT if self.kind is ListSource.FILES else "",
            baseline=_write_entries(baseline_source),
            candidate=_write_entries(candidate_source),
            noise_floor=noise_floor,
            users=self._write_users(users, baseline),
        )

    def _find_source(self, address: str, *, must_exist: bool) -> dict[str, object]:
        """Return the source of the lists at this address."""
        if self.kind in _WITH_USER and _USER_MARK not in address:
            raise typer.BadParameter(
                f"{address!r} is the same for all users: write {_USER_MARK} where the user's id "
                "belongs"
            )
        if self.kind is ListSource.FILES:
            return {"file": self._find_file_options(address, must_exist=must_exist)}
        if self.kind is ListSource.HTTP:
            return {"http": {"url": address, "items": (self.columns["items"] or "@")[0]}}
        if self.kind is ListSource.SQL:
            names = _table_columns(str(self.server), address, self.columns)
            return {"sql": {"url": self.server, "table": address, **names}}
        return {"redis": {"url": self.server, "type": "list", "key": address}}

    def write_test(self, log: str, test: LoggedTest) -> str:
        """Return the sources of an unpaired comparison, which compares the arms of a test."""
        file = self._find_file_options(log, must_exist=self.must_exist)
        served = {"time": test.time, "within": SOURCE_QUESTIONS[self.kind].every}
        baseline, candidate = test.arms
        split = {baseline: test.baseline_share, candidate: round(1 - test.baseline_share, 6)}
        segments = set(find_segments(Path(log), str(file["user"]))) - {test.arm, test.time}
        return _UNPAIRED.format(
            log=_write_entries({"file": {**file, "served": served}}),
            arm=write_yaml(test.arm),
            baseline=write_yaml(baseline),
            candidate=write_yaml(candidate),
            split=write_yaml(split),
            before=format_second(test.before),
            segments=write_yaml(sorted(segments)),
        )

    def _write_users(self, path: str | None, baseline: str) -> str:
        """Return the users: those of the file, or else all users of the baseline."""
        user = self.columns["user"]
        if path is not None:
            if self.must_exist or self.kind is not ListSource.HTTP:
                _require_file(path)
            column = pick_column(Path(path), user or USER_COLUMNS)
            file = {"path": path, "user": column}
            return write_yaml({"file": file, **_segments(Path(path), [column])})
        if self.kind is ListSource.REDIS:
            keys = {"url": self.server, "key": baseline}
            return f"{write_yaml({'redis': keys})} # all users with a key"
        segments = {}
        if self.kind is ListSource.FILES:
            segments = _segments(Path(baseline), user)
        return f"{write_yaml({'all': True, **segments})} # all users of the baseline"

    def _find_file_options(self, path: str, *, must_exist: bool) -> dict[str, object]:
        """Return the options of a file with lists.

        Raises InputError if the file must exist and does not, or if nobody knows its columns.
        """
        if must_exist:
            _require_file(path)
        if find_file_problem(Path(path)) is not None:
            columns = dict[str, object](_pick_columns(self.columns))
            if self.in_order:
                columns.pop("rank", None)
                columns["in_order"] = True
            return {"path": path, **columns}
        try:
            options = _fit(path, self.columns, in_order=self.in_order)
        except InputError as error:
            if not self.reaches_person:
                raise
            print_line(str(error))
            options = _fit(path, ask_columns(), in_order=self.in_order)
        names = {*self.columns, "in_order"}
        return {"path": path, **options.model_dump(include=names, exclude_defaults=True)}


def _segments(path: Path, user: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the setting ``segments`` for the columns of the file, if some are useful."""
    columns = find_segments(path, pick_column(path, user or USER_COLUMNS))
    return {"segments": columns} if columns else {}


def _require_file(path: str) -> None:
    """Raise InputError if there is no such file. The file of a slot may be written later."""
    problem = find_file_problem(Path(path))
    if problem is not None and _SLOT_MARK not in path:
        raise InputError(problem)


def _fit(path: str, columns: ListColumnNames, *, in_order: bool) -> FileSourceOptions:
    """Return the options of a file that has these columns, or columns with usual names."""
    scores = {"scores": columns["scores"][0]} if columns["scores"] else {}
    shapes = list_shapes(
        scores, columns["items"], columns["item"], columns["rank"], in_order=in_order
    )
    return fitting_options(Path(path), columns["user"], shapes)


def _table_columns(url: str, table: str, columns: ListColumnNames) -> dict[str, str]:
    """Return the columns of a table with lists, or the usual columns if it cannot be read.

    Raises InputError if its columns cannot be recognized.
    """
    import sqlalchemy as sa

    present: Sequence[str] = ()
    with suppress(sa.exc.SQLAlchemyError, ImportError, ValueError):
        engine = sa.create_engine(url)
        schema, _, name = table.rpartition(".")
        columns_of_table = sa.inspect(engine).get_columns(name, schema or None)
        present = [column["name"] for column in columns_of_table]
        engine.dispose()
    return _pick_columns(columns, present, table)


def _pick_columns(
    columns: ListColumnNames, present: Sequence[str] = (), table: str = ""
) -> dict[str, str]:
    """Return which columns have the user, and the list or the item and its rank or score.

    If it is unknown which columns are ``present``, these are the named or the first usual columns.
    """

    def pick(key: str, usual: Sequence[str]) -> str:
        wanted = columns[key] or usual
        column = str(match_column(wanted, present))
        if present and column not in present:
            raise InputError(
                f"table {table} has no column {write_absent(wanted[0], present)}. {COLUMN_ADVICE}"
            )
        return column

    picked = {"user": pick("user", USER_COLUMNS)}
    is_wide = not columns["item"] and match_column(("items",), present) in present
    if columns["items"] or is_wide:
        return picked | {"items": pick("items", ("items",))}
    picked["item"] = pick("item", ITEM_COLUMNS)
    if columns["scores"]:
        picked["scores"] = pick("scores", ())
        if not columns["rank"]:
            return picked
    return picked | {"rank": pick("rank", RANK_COLUMNS)}


def _write_entries(mapping: Mapping[str, object]) -> str:
    """Write a mapping as YAML in one line, without the braces around its entries."""
    return write_yaml(mapping)[1:-1]


def write_yaml(value: object) -> str:
    """Write a value as YAML in one line."""
    import yaml

    # YAML ends a single value with a line of dots, but not a list.
    text: str = yaml.safe_dump(
        [value], default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6
    )
    return text.strip()[1:-1]
