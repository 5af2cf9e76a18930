"""Many comparisons in one daemon: how many slots ran, how late and at what CPU, and what a scrape takes.

`make bench ARGS="many --seconds 300 10 200 200+12"`: 10 comparisons, 200, and 200 together with 12 whose sources never answer.
The daemon is a separate process with the code of ``--root``, so that two checkouts can be compared. Lists come by HTTP from a
process that has them in memory. The first two rounds of slots are not counted. Comparisons that hang count only for the CPU
time. The table also has the CPU time that aiohttp alone needs for the requests of one run: each user's list of both arms. The
ratio is the CPU time of a run, divided by this time. A row takes up to three rounds longer than ``--seconds``.
"""

import gzip
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bench import parse_options, show
from bench.canned import canned_server
from monitor.model.immutable import immutable
from places import ROOT
from servers.daemon import find_address

WARM_ROUNDS = 2
COLUMNS = (
    "comparisons|slots|ran|users/min|lag p50 s|lag p99 s|CPU ms/run|aiohttp ms|ratio|CPU %|RSS MB|"
    "scrape s|longest|page MB|gzip kB"
)
COMPARISON = """
  - name: {name}
    every: {every}s
    baseline: {{http: {{url: "{address}/{place}/baseline/{{user}}"}}}}
    candidate: {{http: {{url: "{address}/{place}/candidate/{{user}}"}}}}
    users: {{file: {{path: users.csv, user: user_id}}, segments: {segments}}}
    metrics: [extended_tau, "rbo(p=0.9)", overlap]
    rules: default
"""

ALONE = """
import asyncio, json, statistics, sys, time
from monitor.model.immutable import immutable
import aiohttp

ADDRESS, USERS, ROUNDS = sys.argv[1], int(sys.argv[2]), 10

async def fetch(session, arm, user):
    async with session.get(f"{ADDRESS}/lists/{arm}/user-{user:05}") as response:
        return json.loads(await response.read())

async def main():
    connector = aiohttp.TCPConnector(limit=16)
    async with aiohttp.ClientSession(connector=connector) as session:
        for _ in range(ROUNDS):
            started_s = time.process_time()
            arms = ("baseline", "candidate")
            requests = [fetch(session, arm, user) for arm in arms for user in range(USERS)]
            await asyncio.gather(*requests)
            yield time.process_time() - started_s

async def measure():
    print(1000 * statistics.median([used_s async for used_s in main()]))

asyncio.run(measure())
"""


@immutable
class Plan:
    """What one row of the table measures."""

    root: Path
    healthy: int
    hanging: int
    users: int
    every: int
    seconds: int
    is_spread: bool = False
    segments: int = 0

    def write(self, folder, address):
        """Write the configuration and its users."""
        countries = max(1, self.segments)
        rows = (f"user-{number:05},country-{number % countries}\n" for number in range(self.users))
        (folder / "users.csv").write_text("user_id,country\n" + "".join(rows))
        names = [("lists", f"healthy-{n:03}") for n in range(self.healthy)] + [
            ("hanging", f"z{n:02}") for n in range(self.hanging)
        ]
        segments = "[country]" if self.segments else "[]"
        text = "database: sqlite:///many.db\nlisten: 127.0.0.1:0\nconcurrent_runs: 8\ncomparisons:"
        for number, (place, name) in enumerate(names):
            text += COMPARISON.format(
                name=name, every=self.every, address=address, place=place, segments=segments
            )
            if self.is_spread:
                offset_s = number * self.every // len(names)
                text += f"    offset: {offset_s}s\n" if offset_s else ""
        path = folder / "rankwatch.yaml"
        path.write_text(text)
        return path


def main(arguments):
    """Print one row for each number of comparisons."""
    numbers = ("10", "100", "200", "400", "200+12")
    options = parse_options(
        arguments, numbers, root=ROOT, users=200, every=30, seconds=300, spread=False
    )
    rows = []
    with canned_server() as address:
        for one in options.rest:
            healthy, _, hanging = one.partition("+")
            plan = Plan(
                root=options.root.resolve(),
                healthy=int(healthy),
                hanging=int(hanging or 0),
                users=options.users,
                every=options.every,
                seconds=-(-options.seconds // options.every) * options.every,
                is_spread=options.spread,
            )
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                _report(f"{one} comparisons: starts the daemon")
                with serving(plan, folder, address) as (daemon, url):
                    alone_ms = _measure_requests_alone(address, plan.users)
                    rows.append((one, *_watched(plan, daemon, url, folder / "many.db", alone_ms)))
    show(
        f"{options.users} users, every {options.every} s, {options.root}", COLUMNS.split("|"), rows
    )


@contextmanager
def serving(plan, folder, address, *watched):
    """Run the daemon of the plan. Yields the process and its address.

    ``watched`` is a program with arguments that starts the daemon. The default is rankwatch itself.
    """
    config, log = plan.write(folder, address), folder / "log"
    call = ["-c", *watched] if watched else ["-m", "monitor"]
    with log.open("wb") as written:
        daemon = subprocess.Popen(
            [sys.executable, *call, "serve", "--config", str(config)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(plan.root)},
            stderr=written,
            stdout=written,
        )
    try:
        yield daemon, _address(log, daemon)
    finally:
        daemon.terminate()
        daemon.wait(300)


def _address(log, daemon):
    while daemon.poll() is None:
        if address := find_address(log):
            return address
        time.sleep(0.1)
    sys.exit(f"the daemon ended: {log.read_text()}")


def _measure_requests_alone(address, users):
    """CPU of aiohttp for one run's requests, in milliseconds."""
    command = [sys.executable, "-c", ALONE, address, str(users)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _watched(plan, daemon, url, database, alone_ms):
    now = time.time()
    first = (now // plan.every + 1 + WARM_ROUNDS) * plan.every
    _report(f"warms up for {first - now:.0f} s, then measures for {plan.seconds} s")
    time.sleep(first - now)
    used_s, scrapes = _cpu_s(daemon.pid), []
    while time.time() < first + plan.seconds:
        scrapes.append(_scraped(url))
        _report(f"{first + plan.seconds - time.time():.0f} s left to measure")
        time.sleep(max(0.0, min(first + plan.seconds, first + 15 * len(scrapes)) - time.time()))
    used_s, resident_mb = _cpu_s(daemon.pid) - used_s, _resident_mb(daemon.pid)
    slots = plan.healthy * plan.seconds // plan.every
    # Runs that were due at the end may still end, but no later than the next slot.
    for _ in range(plan.every):
        lags = _lags(database, first, first + plan.seconds)
        if lags.size == slots:
            break
        time.sleep(1)
    ran = lags.size
    took, size, packed = (np.array(column) for column in zip(*scrapes, strict=True))
    run_ms = used_s * 1000 / max(ran, 1)
    figures = [
        *(np.quantile(lags, (0.5, 0.99)) if ran else (np.nan, np.nan)),
        run_ms,
        alone_ms,
        run_ms / alone_ms,
        100 * used_s / plan.seconds,
        resident_mb,
        np.median(took),
        took.max(),
        np.median(size) / 1e6,
        np.median(packed) / 1e3,
    ]
    return [
        f"{slots:,}",
        f"{ran / slots:.1%}",
        f"{ran * plan.users * 60 / plan.seconds:,.0f}",
        *(f"{each:,.2f}" if each < 100 else f"{each:,.0f}" for each in figures),
    ]


def _report(progress):
    print(f"{datetime.now():%H:%M:%S} {progress}", file=sys.stderr)  # noqa: T201, DTZ005 - a row takes minutes


def _scraped(url):
    """Seconds, bytes and bytes on the wire of a scrape as Prometheus makes it."""
    accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8,text/plain;version=0.0.4;q=0.5"
    request = urllib.request.Request(
        f"{url}/metrics", headers={"Accept": accept, "Accept-Encoding": "gzip"}
    )
    started = time.perf_counter()
    with urllib.request.urlopen(request, timeout=120) as answer:
        packed = answer.read()
    return time.perf_counter() - started, len(gzip.decompress(packed)), len(packed)


def _family(pid):
    """A process and its children."""
    return [
        pid,
        *(
            int(child)
            for task in Path(f"/proc/{pid}/task").glob("*/children")
            for child in task.read_text().split()
        ),
    ]


def _cpu_s(pid):
    """CPU time of the process and its children, including children that have ended."""
    stats = [
        Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in _family(pid)
    ]
    return sum(int(ticks) for fields in stats for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid):
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in _family(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _lags(database, start, end):
    """Seconds from slot to start, for the ok runs of healthy comparisons with slots between the two times."""
    query = "SELECT slot, started_at FROM runs WHERE status = 'ok' AND comparison LIKE 'healthy-%'"
    connection = sqlite3.connect(database)
    rows = [tuple(map(_seconds, row)) for row in connection.execute(query)]
    connection.close()
    return np.array([started - slot for slot, started in rows if start <= slot < end])


def _seconds(stored):
    if isinstance(stored, str):
        return datetime.fromisoformat(stored).replace(tzinfo=UTC).timestamp()
    return float(str(stored)) / 1e6
