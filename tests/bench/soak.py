"""A daemon that runs one comparison a second with default rules: whether its memory grows once it has warmed up.

`make bench ARGS="soak --seconds 7200"` ends with 1 where resident memory grows by more than ``--most`` MB an hour in the second
half. Beside it stand what malloc gave out and what it holds, whose difference is fragmentation, and Python's objects.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.many import Plan, serving
from bench.pull import canned_server

COLUMNS = ("after s", "resident MB", "given out MB", "held MB", "objects")


def main(arguments: list[str]) -> None:
    """Print a line a look, and the slopes of the second half."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="checkout whose daemon is measured")
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=7200)
    parser.add_argument("--look", type=float, default=30, help="seconds between two looks")
    parser.add_argument("--most", type=float, default=5, help="MB an hour by which memory may grow")
    given = parser.parse_args(arguments)
    plan = Plan(root=given.root.resolve(), healthy=1, hanging=0, users=given.users, every=1, seconds=given.seconds)
    with canned_server(None) as address, tempfile.TemporaryDirectory() as name:
        seen = Path(name) / "seen"
        with serving(plan, Path(name), address, WATCHED, str(seen), str(given.look)) as (daemon, _):
            time.sleep(given.seconds)
            if daemon.poll() is not None:
                sys.exit(f"the daemon ended with {daemon.returncode}: {(Path(name) / 'log').read_text()[-2000:]}")
        looks = np.loadtxt(seen, ndmin=2)
    table = Table(*COLUMNS, title=f"{given.users} users every second, {plan.root}", title_justify="left")
    for look in looks:
        table.add_row(*(f"{each:,.0f}" if each > 1000 else f"{each:,.1f}" for each in look))
    slopes = slopes_an_hour(looks)
    table.add_row("slope an hour", *(f"{slope:+,.1f}" for slope in slopes))
    Console(width=110).print(table)
    sys.exit(1 if slopes[0] > given.most else 0)


def slopes_an_hour(looks: np.ndarray) -> list[float]:
    """By how much each column but the first, seconds, grew an hour in the second half: the slope of the straight line."""
    late = looks[len(looks) // 2 :]
    return [float(3600 * np.polyfit(late[:, 0], column, 1)[0]) for column in late.T[1:]]


WATCHED = """
import ctypes, gc, os, runpy, sys, threading, time
out, every, sys.argv = sys.argv[1], float(sys.argv[2]), ["rankwatch", *sys.argv[3:]]
class Malloc(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]
malloc = ctypes.CDLL(None)
malloc.mallinfo2.restype = Malloc
def watch(begun=time.monotonic(), page=os.sysconf("SC_PAGE_SIZE")):
    with open(out, "w", buffering=1) as file:
        while True:
            time.sleep(every)
            gc.collect()
            found, resident = malloc.mallinfo2(), int(open("/proc/self/statm").read().split()[1]) * page
            sizes = [each / 1e6 for each in (resident, found.uordblks + found.hblkhd, found.arena + found.hblkhd)]
            print(time.monotonic() - begun, *sizes, sys.getallocatedblocks(), file=file)
threading.Thread(target=watch, daemon=True).start()
runpy.run_module("monitor", run_name="__main__")
"""
"""Runs the daemon and writes a line of figures once in a while."""
