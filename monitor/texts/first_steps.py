"""Writes about the first configuration, and about runs whose lists have not changed."""

from collections.abc import Sequence

from monitor.texts.wording import count_of


def write_first_config(
    config: str, option: str, *, missing: Sequence[str] = (), users: int = 0
) -> str:
    """Say what was written, and what to do next.

    ``option`` begins with a blank, and names the file in commands. ``users`` is the number of users
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
    return (
        f"Wrote {config}. Next: change what does not fit. Then: rankwatch check{option}, and "
        f"rankwatch run-once{option}"
    )


def write_unusable_config(config: str, option: str) -> str:
    """Say that the written file cannot be used, and what to do next."""
    return (
        f"Wrote {config}, but it cannot be used, for the reasons above. Next: change it, and then "
        f"rankwatch check{option}"
    )


def write_while_learning(comparison: str, sentence: str) -> str:
    """Say what a run found while no rule has learned yet what is normal."""
    return (
        f"{comparison}: {sentence} No alert reports this, because the rules are still learning "
        f"what is normal. Look at it first: rankwatch show {comparison}"
    )


def write_same_lists(comparison: str, before: str) -> str:
    """Say that both arms have the lists of an earlier run, and how runs can read new lists."""
    return (
        f"{comparison}: both arms have the same lists as in the run of {before}, but rules count "
        "it as a further run. If there are new files for each run, write their time into the "
        'path, such as "lists-{slot:%Y-%m-%d}.csv"'
    )
