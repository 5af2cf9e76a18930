"""How many statements something costs, and how each is found, whatever the database."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event


def count_statements(act: Callable[[], object]) -> int:
    """Executions while it runs, of all threads; many rows in one are one."""
    seen: list[str] = []
    with _heard(lambda _connection, statement, _given: seen.append(statement)):
        act()
    return len(seen)


def plans_of(act: Callable[[], object]) -> list[str]:
    """The plan of each statement of it that finds rows, as the database says it."""
    plans: list[str] = []

    def explain(connection: Connection, statement: str, given: Any) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")):
            words = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
            cursor = connection.connection.cursor()
            cursor.execute(f"{words} {statement}", given)
            plans.append("\n".join(str(row) for row in cursor.fetchall()))

    with _heard(explain):
        act()
    return plans


@contextmanager
def _heard(hear: Callable[[Connection, str, Any], None]) -> Iterator[None]:
    def see(connection: Connection, _cursor: object, statement: str, given: Any, *_: object) -> None:
        hear(connection, statement, given)

    event.listen(Engine, "before_cursor_execute", see)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", see)
