"""How many statements something costs, whatever the database."""

from collections.abc import Callable

from sqlalchemy import Engine, event


def count_statements(act: Callable[[], object]) -> int:
    """Executions while it runs, of all threads; many rows in one are one."""
    seen: list[str] = []

    def see(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", see)
    try:
        act()
    finally:
        event.remove(Engine, "before_cursor_execute", see)
    return len(seen)
