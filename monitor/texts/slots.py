"""Writes about slots that have already run."""


def write_already_run(comparison: str, runs: int, slot: str, earlier: str) -> str:
    """Say why slots are not run again, how to see their runs, and how to run them again.

    ``slot`` is the newest of these slots. If it runs again, the earlier run is stored under the
    name ``earlier``.
    """
    done = f"{comparison}: the slot {slot} has already run"
    if runs > 1:
        done = f"{comparison}: {runs:,} slots have already run, the newest is {slot}"
    return (
        f"{done}, and its sources answer only for the present. To see the run: rankwatch show "
        f"{comparison} --slot {slot}. To run it again, add --again. Then the earlier run is stored "
        f"as {earlier}"
    )


def write_run_again(comparison: str, runs: int, slot: str, earlier: str) -> str:
    """Say which slots run again, and how to see the earlier runs."""
    again = f"{comparison}: the slot {slot} runs again"
    if runs > 1:
        again = f"{comparison}: {runs:,} slots run again, the newest is {slot}"
    return f"{again}. To see the earlier run: rankwatch show {earlier} --slot {slot}"
