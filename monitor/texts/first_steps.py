"""Texts about the first configuration, and about runs that repeat the run before."""

from collections.abc import Sequence

from monitor.texts.wording import count_of


def write_first_config(
    config: str, option: str, *, missing: Sequence[str] = (), users: int = 0
) -> str:
    """What was written, and what to do next.

    ``option`` names the file in commands, with a blank before it. ``users`` is the number of users
    whose lists were compared.
    """
    if missing:
        noun = "this file" if len(missing) == 1 else "these files"
        return (
            f"Wrote {config}. Next: write {noun}, or change the paths: {', '.join(missing)}. Then: "
            f"rankwatch check{option}"
        )
    if users:
        compared = f"Wrote {config}, and compared the lists of {count_of(users, 'user')}."
        return f"{compared} Next: rankwatch run-once{option}"
    return f"Wrote {config}. Next: rankwatch check{option}, and then rankwatch run-once{option}"


def write_unusable_config(config: str, option: str) -> str:
    """That no lists could be compared with the written file, and what to do next."""
    return (
        f"Wrote {config}, but no lists could be compared. Next: change it, and then rankwatch "
        f"check{option}"
    )


def write_same_lists(comparison: str, before: str) -> str:
    """That both arms have the lists of the run before, and how each run reads new lists."""
    return (
        f"{comparison}: both arms have the same lists as in the run of {before}, so rules learn "
        "nothing new. If new files are written for each run, write {slot} in their paths, such as "
        "lists-{slot:%Y-%m-%d}.csv"
    )
