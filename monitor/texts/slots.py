"""Texts about slots that have already run."""


def write_already_run(comparison: str, runs: int, slot: str, earlier: str) -> str:
    """Why slots are not run again, where their runs are shown, and how to run them again.

    ``slot`` is the newest of these slots. ``earlier`` is the name that its run would have then.
    """
    done = f"{comparison}: the slot {slot} has already run"
    if runs > 1:
        done = f"{comparison}: {runs:,} slots have already run, the newest is {slot}"
    return (
        f"{done}, and its sources answer only for the present. To see the run: rankwatch show "
        f"{comparison} --slot {slot}. To run it again: add --again, and the earlier run is kept as "
        f"{earlier}"
    )


def write_run_again(comparison: str, runs: int, slot: str, earlier: str) -> str:
    """Which slots are run again, and where the earlier runs are shown."""
    again = f"{comparison}: the slot {slot} runs again"
    if runs > 1:
        again = f"{comparison}: {runs:,} slots run again, the newest is {slot}"
    return f"{again}. The earlier run is kept: rankwatch show {earlier} --slot {slot}"
