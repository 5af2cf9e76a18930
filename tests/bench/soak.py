"""A daemon with default rules, and a Prometheus that scrapes it: whether its memory grows once it has warmed up.

`make bench ARGS="soak --seconds 7200"` runs one comparison of 40 users every second.
With 20 scrapes a second of a large page:
`make bench ARGS="soak --comparisons 60 --users 1000 --segments 8 --every 60 --scrapes 20 --seconds 3600 --most 20"`.
The exit code is 1 if resident memory grows by more than ``--most`` MB per hour in the second half.
The table also shows the memory that malloc returned to the program and the memory that it has. The difference is fragmentation.
No garbage is collected before a measurement, so cyclic garbage counts.
"""

import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench import parse_options, show
from bench.canned import canned_server
from bench.many import Plan, serving
from places import ROOT

COLUMNS = (
    "after s",
    "resident MB",
    "given out MB",
    "held MB",
    "objects",
    "threads",
    "files",
    "scrapes",
)
_SCRAPERS = 4
LOOK_S = 30
"""Seconds between two measurements."""


def main(arguments):
    """Print a line for each measurement, and the slopes of the second half."""
    options = parse_options(
        arguments,
        root=ROOT,
        comparisons=1,
        users=40,
        segments=0,
        every=1,
        scrapes=0.0,
        seconds=7200,
        most=5.0,
    )
    plan = Plan(
        root=options.root.resolve(),
        healthy=options.comparisons,
        hanging=0,
        users=options.users,
        every=options.every,
        seconds=options.seconds,
        is_spread=True,
        segments=options.segments,
    )
    with canned_server() as address, tempfile.TemporaryDirectory() as name:
        seen = Path(name) / "seen"
        with serving(plan, Path(name), address, WATCHED, str(seen), str(LOOK_S)) as (daemon, url):
            with scraping(url, options.scrapes) as scrapes:
                counts = watch_scrapes(scrapes, options.seconds)
            if daemon.poll() is not None:
                sys.exit(
                    f"the daemon ended with {daemon.returncode}: "
                    f"{(Path(name) / 'log').read_text()[-2000:]}"
                )
        looks = np.loadtxt(seen, ndmin=2)
    looks = np.column_stack([looks[: len(counts)], counts[: len(looks)]])
    slopes = slopes_an_hour(looks)
    rows = [[f"{each:,.1f}" for each in look] for look in looks]
    rows.append(["slope an hour", *(f"{slope:+,.1f}" for slope in slopes)])
    show(f"{options.comparisons} x {options.users} users, {plan.root}", COLUMNS, rows)
    sys.exit(1 if slopes[0] > options.most else 0)


@contextmanager
def scraping(url, a_second):
    """A list to which threads add the duration of each scrape. They make about this number of scrapes per second."""
    scrapes = []
    done = threading.Event()

    def scrape():
        begun = time.monotonic()
        while not done.wait(max(0.0, begun + _SCRAPERS / a_second - time.monotonic())):
            begun = time.monotonic()
            with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
                while answer.read(1 << 20):
                    pass
            scrapes.append(time.monotonic() - begun)

    threads = [threading.Thread(target=scrape) for _ in range(_SCRAPERS)] if a_second else []
    for thread in threads:
        thread.start()
    try:
        yield scrapes
    finally:
        done.set()
        for thread in threads:
            thread.join()


def watch_scrapes(scrapes, seconds):
    """The number of scrapes up to each measurement, during this number of seconds."""
    counts = []
    for _ in range(int(seconds / LOOK_S)):
        time.sleep(LOOK_S)
        counts.append(len(scrapes))
    return counts


def slopes_an_hour(looks):
    """The growth of each column per hour in the second half, as the slope of a straight line. The first column is the time."""
    late = looks[len(looks) // 2 :]
    return [float(3600 * np.polyfit(late[:, 0], column, 1)[0]) for column in late.T[1:]]


WATCHED = """
import ctypes, os, runpy, sys, threading, time
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
            found, resident = malloc.mallinfo2(), int(open("/proc/self/statm").read().split()[1]) * page
            sizes = [each / 1e6 for each in (resident, found.uordblks + found.hblkhd, found.arena + found.hblkhd)]
            counts = sys.getallocatedblocks(), threading.active_count(), len(os.listdir("/proc/self/fd"))
            print(time.monotonic() - begun, *sizes, *counts, file=file)
threading.Thread(target=watch, daemon=True).start()
runpy.run_module("monitor", run_name="__main__")
"""
"""Runs the daemon, and writes a line of figures at each measurement."""
