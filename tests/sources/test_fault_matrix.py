"""What may go wrong with each kind of source, behind real servers, and what is said: as a table by ``make faults``."""

import gzip
import json
import os
import re
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from rich.console import Console
from rich.table import Table
from structlog.testing import capture_logs

from forking import rankwatch
from memory import with_peak_mb
from monitor.alerts.verdicts import BOTH_FAILED
from monitor.model.runs import RunResult, RunStatus
from monitor.pipeline.pull import GRACE_S
from monitor.service.commands.one_shot import open_one_shot
from monitor.sources import SOURCES
from monitor.sources.http.source import PullPace
from servers import free_port, hanging_name, listening
from servers.answering import answering
from servers.certificates import found
from servers.proxy import proxying
from servers.recommender import Recommender, running_recommender
from servers.redis import PASSWORD, emptied_redis, shared_redis
from servers.webhook import serve
from sources.file.test_hostile import long_users

SLOT = datetime(2024, 1, 8, tzinfo=UTC)
USERS = [f"u{number}" for number in range(8)]
LINE = b'{"user": "another", "items": [1]}\n'
SLACK_S = 15.0
"""A busy machine's."""
NONE = ("gave no list for 8 of 8 users", "; nothing could be compared")
HALF = (r"gave no usable answer for 4 of 8 users \(50 %\)", "; for example u0, u2, u4, u6; more than the 20 % allowed")


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault of one kind: how the candidate is asked, and what is said of it, as a pattern; "" where all is well.

    ``lost``: so many of `USERS` have no list; ``both``: so is the baseline; ``most_mb``: the process may grow by so much.
    """

    fault: str
    kind: str
    candidate: Mapping[str, Any]
    told: str = ""
    lost: int = 8
    both: bool = False
    deadline_s: int = 20
    most_mb: int = 64

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.fault.replace(' ', '-').lower()}"

    @property
    def message(self) -> str:
        """All that is said, as a pattern: the host or path, and example users where not everybody is concerned."""
        lost, end = HALF if self.lost == 4 else NONE
        arm = rf"{lost}: (?=.*(127\.0\.0\.1|\.invalid|/)).*{self.told}.*"
        if self.both:
            return f"{BOTH_FAILED}: the baseline {arm}; the candidate {arm}{end}"
        return f"the candidate {arm}; the baseline answered 8 of 8{end}"


def grow(path: Path, ended: threading.Event) -> None:
    while not ended.wait(0.001):
        with path.open("ab") as file:
            file.write(LINE)


def make_faults(running: ExitStack, folder: Path, postgres: sa.URL) -> list[Cell]:  # noqa: C901 - few words for each kind
    """All cells, with their servers up."""
    client, nobody, hanging = running.enter_context(emptied_redis()), free_port(), running.enter_context(hanging_name())
    for name, text in {"good": "[1, 2]", "object": "{}", "fraction": "[1.5]", "long": f"[{'1,' * 70_000}1]"}.items():
        client.mset({f"{name}:{user}": text for user in USERS})
    authority, tls = found(folder, "authority"), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = authority.issue("elsewhere", "DNS:elsewhere.test")
    tls.load_cert_chain(pair.cert, pair.key)
    misnamed, postgres_port = f"127.0.0.1:{running.enter_context(running_recommender(tls)).port}", postgres.port or 0
    trusted = str(authority.cert)

    def http(behaviour: str, users: list[str] = USERS, **more: Any) -> dict[str, Any]:
        recommender = running.enter_context(running_recommender())
        recommender.behaviour.update(dict.fromkeys(users, behaviour))
        return {"url": recommender.url, "retries": 0, **more}

    def many(answer: Callable[[list[str]], tuple[int, object]]) -> dict[str, Any]:
        url = running.enter_context(answering(lambda _, body: answer(body["users"])))
        return {"url": url, "method": "POST", "body": {"users": "{users}"}, "batch": 8}

    def redis(key: str = "good", at: str = f"127.0.0.1:{shared_redis()}", scheme: str = "redis", **more: Any) -> dict[str, Any]:
        return {"url": f"{scheme}://{at}", "type": "string", "key": f"{key}:{{user}}", **more}

    def replying(reply: bytes) -> int:
        """The port of what answers anything so, and ends the connection."""

        def answer(asked: socket.socket, *_: object) -> Any:
            asked.recv(65536)
            asked.sendall(reply)

        running.enter_context(listening(server := socketserver.ThreadingTCPServer(("127.0.0.1", 0), answer)))
        return int(server.server_address[1])

    def faked(reply: bytes) -> dict[str, Any]:
        return redis(at=f":{PASSWORD}@127.0.0.1:{replying(reply)}")

    def proxied(port: int, fault: str, *how: float) -> int:
        proxy = running.enter_context(proxying(port))
        getattr(proxy, fault)(*how)
        return proxy.port

    def sql(what: str = "'[1]'", users: str = "generate_series(0, 7)", **more: Any) -> dict[str, Any]:
        query = f"SELECT 'u' || n AS who, {what} AS what FROM {users} n"  # noqa: S608 - of these texts
        url = postgres.set(**more).render_as_string(hide_password=False)
        return {"url": url, "query": query, "user": "who", "items": "what"}

    def file(name: str, write: Callable[[Path], object]) -> dict[str, Any]:
        write(folder / name)
        return {"path": str(folder / name), "user": "user", "items": "items"}

    def content(name: str, given: bytes) -> dict[str, Any]:
        return file(name, lambda path: path.write_bytes(given))

    def parquet(name: str, items: Any, users: Any = USERS) -> dict[str, Any]:
        return file(f"{name}.parquet", partial(pq.write_table, pa.table({"user": users, "items": items})))

    lines = "".join(json.dumps({"user": user, "items": [1, 2]}) + "\n" for user in USERS).encode()
    growing, ended = content("growing.jsonl", lines + LINE * 200_000), threading.Event()
    threading.Thread(target=partial(grow, Path(growing["path"]), ended), daemon=True).start()
    running.callback(ended.set)
    rubbish = sql() | {"url": f"sqlite:///{content('a.db', b'rubbish' * 999)['path']}"}
    empty = sql() | {"url": f"sqlite:///{content('b.db', b'')['path']}"}
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x who, 1 what FROM n WHERE x < 0"
    killed = "CASE WHEN n < 30000 THEN '[1]' ELSE pg_terminate_backend(pg_backend_pid())::text END"
    no_answer = "no answer when the deadline passed"
    late, no_list = r"had not answered when the run's deadline \(deadline: 1s\) passed", "expected a list of ids, found"
    slow = r"had not answered after [\d.]+ s, when the run's deadline \(deadline: 3s\) passed"
    others = rf"{slow}; the others were answered after [\d.e-]+ s \(median\)"
    return [
        Cell("none", "http", http("ok"), lost=0),
        Cell("none", "redis", redis(), lost=0),
        Cell("down", "http", {"url": f"http://127.0.0.1:{nobody}/{{user}}"}, "refused or lost the connection"),
        Cell("down", "redis", redis(at=f"127.0.0.1:{nobody}"), "refused"),
        Cell("down", "sql", sql(port=nobody), "refused"),
        Cell("down", "file", file("none.csv", str), "does not exist: check the path"),
        Cell("an empty folder", "file", file("folder.parquet", Path.mkdir), "holds no file: check the path"),
        Cell("silent", "http", http("slow", timeout="1s"), "gave no answer within 1 s, the timeout of a request"),
        Cell("silent", "redis", redis(at=f"127.0.0.1:{proxied(shared_redis(), 'hang')}", timeout="500ms"), "no answer within"),
        Cell("silent", "sql", sql(port=proxied(postgres_port, "hang")), late, deadline_s=1),
        Cell("silent", "file", file("pipe.csv", os.mkfifo), "is no regular file"),
        Cell("slow", "http", http("slow", timeout="1m"), slow, deadline_s=3),
        Cell("slow", "sql", sql("pg_sleep(60) || '[1]'"), late, deadline_s=1),
        Cell("slow in a file", "sql", empty | {"query": endless}, late, deadline_s=1),
        Cell("endless in a file", "sql", empty | {"query": endless.rstrip("<0 "), "max_rows": 10**9}, late, deadline_s=1),
        Cell("slow for half", "http", http("slow", USERS[::2], timeout="1m"), others, 4, deadline_s=3),
        Cell("trickles", "redis", redis(at=f"127.0.0.1:{proxied(shared_redis(), 'slow', 1.0)}"), no_answer, deadline_s=1),
        Cell("trickles", "sql", sql(port=proxied(postgres_port, "slow", 1.0)), late, deadline_s=1),
        Cell("429", "http", http("limited"), "answered 429 Too Many Requests"),
        Cell("429 with a pause", "http", http("limited_for_hours", concurrency=1), r"a pause of 3,600 s \(Retry-After\)"),
        Cell("fails", "http", http("unavailable"), "answered 503 Service Unavailable"),
        Cell("fails in both", "http", http("unavailable"), "answered 503 Service Unavailable", both=True),
        Cell("fails", "redis", faked(b"-READONLY You can't write\r\n"), "the server is a read-only replica"),
        Cell("fails", "sql", sql(database="none"), "the server has no such database"),
        Cell("fails for half", "http", http("unavailable", USERS[::2]), "answered 503 Service Unavailable", 4),
        Cell("LOADING", "redis", faked(b"-LOADING Redis is loading the dataset\r\n"), "is loading its data"),
        Cell("MOVED", "redis", faked(b"-MOVED 1 127.0.0.1:1\r\n"), r"a node of a cluster: write redis\+cluster://"),
        Cell("lets nobody in", "http", http("forbidden"), "answered 403 Forbidden"),
        Cell("lets nobody in", "redis", faked(f"-WRONGPASS not {PASSWORD}\r\n".encode()), "refused the user or the password"),
        Cell("lets nobody in", "sql", sql(password="canary"), "refused the user or the password"),  # noqa: S106 - of nobody
        Cell("garbage", "http", http("html"), r"answered 200 with HTML \(content type text/html\), not JSON"),
        Cell("garbage", "redis", faked(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "what answers there is no Redis server"),
        Cell("garbage", "sql", sql(port=replying(b"HTTP/1.1 400\r\n")), "what answers there is no such database server"),
        Cell("garbage in a file", "sql", rubbish, "not a database"),
        Cell("garbage", "file", content("rubbish.parquet", b"rubbish\n" * 100), "is no Parquet file"),
        Cell("wrong shape", "http", http("object", items="recs"), r"nothing where items says \(recs\), in an object of error"),
        Cell("wrong shape", "redis", redis("object"), "8 of 8 rows cannot be read .an object"),
        Cell("wrong shape", "sql", sql("'{}'"), "8 of 8 rows cannot be read .an object"),
        Cell("wrong shape", "file", parquet("single", [1] * 8), "holds int64, expected lists: .* give item and rank"),
        Cell("ids of a wrong type", "http", http("fraction_item"), f"{no_list} a list with a number that is not whole"),
        Cell("ids of a wrong type", "redis", redis("fraction"), "8 of 8 rows cannot be read .a number that is not whole"),
        Cell("ids of a wrong type", "sql", sql("'[1.5]'"), "8 of 8 rows cannot be read .a number that is not whole"),
        Cell("ids of a wrong type", "file", parquet("fraction", [[1.5]] * 8), "8 of 8 rows cannot be read .a number"),
        Cell("keys of a wrong type", "redis", redis(type="zset"), "another type than the option type says"),
        Cell("another order", "http", many(lambda users: (200, {user: [1, 2] for user in users[::-1]})), lost=0),
        Cell("another order", "sql", sql(users="generate_series(7, 0, -1)"), lost=0),
        Cell("another order", "file", parquet("reversed", [[1, 2]] * 8, USERS[::-1]), lost=0),
        Cell("half a batch", "http", many(lambda _: (200, [[1]] * 4)), "gave 4 answers where 8 users were asked for"),
        Cell("a batch too large", "http", many(lambda users: (413, 0) if users[2:] else (200, [[1] for _ in users])), lost=0),
        Cell("huge", "http", http("huge"), "answered with more than max_bytes"),
        Cell("huge", "redis", redis("long"), "the user's JSON is longer than max_bytes, 131072"),
        Cell("huge", "sql", sql(users="(SELECT generate_series(0, 1000000) n)") | {"max_rows": 10**5}, "more than 100000 rows"),
        Cell("huge", "file", content("long.jsonl", b'{"user": "' + b"x" * 2**25), "is longer than 16 MiB", most_mb=256),
        Cell("bomb", "sql", sql("'[' || repeat('1,', 5000000) || '1]'"), "gives a value of length 10000003: select"),
        Cell("bomb", "file", file("bomb.parquet", long_users), "holds a text of 1048576 bytes", most_mb=256),
        Cell("cut", "http", http("cut"), "refused or lost the connection: its end was not seen"),
        Cell("cut", "redis", faked(b"$100\r\n[1, "), "the server closed the connection"),
        Cell("cut", "sql", sql(killed, "generate_series(0, 99999)"), "an administrator ended the connection"),
        Cell("cut", "file", content("cut.jsonl.gz", gzip.compress(lines)[:-9]), "the file is cut off"),
        Cell("grows meanwhile", "file", growing, "was written anew while it was read: run the slot again"),
        Cell("TLS of another name", "http", {"url": f"https://{misnamed}/{{user}}", "ca_file": trusted}, "mismatch.*ca_file"),
        Cell("TLS of another name", "redis", redis(at=f"{misnamed}?ssl_ca_certs={trusted}", scheme="rediss"), "for another host"),
        Cell("no TLS", "sql", sql(query={"sslmode": "require"}), "the server takes no TLS, and sslmode asks for it"),
        Cell("leads elsewhere", "http", http("redirect"), "answered 302 Found"),
        Cell("no name", "http", {"url": "http://recs.invalid/{user}", "retries": 0}, "is a name that DNS could not resolve"),
        Cell("DNS hangs", "http", {"url": f"http://{hanging}/{{user}}", "timeout": "1s"}, "gave no answer within 1 s"),
        Cell("DNS hangs", "redis", redis(at=hanging), no_answer, deadline_s=1),
        Cell("DNS hangs", "sql", sql() | {"url": f"mysql+pymysql://{hanging}/lists"}, late, deadline_s=1),
    ]  # fmt: skip


def write_config(folder: Path, cells: list[Cell], baseline: str, hook: str) -> Path:
    """A comparison a cell."""
    (folder / "users.csv").write_text("\n".join(["user", *USERS]))
    every = {"every": "1d", "k": 2, "min_paired_share": 0.1, "metrics": ["extended_tau"]}
    every |= {"users": {"file": {"path": "users.csv", "user": "user"}}, "baseline": {"http": {"url": baseline}}}
    every |= {"rules": [{"alert": "Unanswered", "coverage": "failed(candidate)", "above": 0.2, "min_users": 1}]}
    own = [{"name": cell.name, "deadline": f"{cell.deadline_s}s", "candidate": {cell.kind: cell.candidate}} for cell in cells]
    own = [each | ({"baseline": each["candidate"]} if cell.both else {}) for each, cell in zip(own, cells, strict=True)]
    given = {
        "database": "sqlite:///rankwatch.db",
        "conditions": {"error": {"for": 1}},
        "receivers": [{"webhook": {"url": hook}}],
    }
    path = folder / "rankwatch.yaml"
    path.write_text(json.dumps({**given, "comparisons": [every | each for each in own]}))
    return path


@pytest.mark.early(20)
def test_a_fault_is_told_with_its_cause_in_time_and_in_little_memory(
    postgres_url: str, recommender: Recommender, tmp_path: Path
) -> None:
    with ExitStack() as running:
        collector = running.enter_context(contextmanager(serve)())
        cells = make_faults(running, tmp_path, sa.make_url(postgres_url))
        config = write_config(tmp_path, cells, recommender.url, collector.url)
        running.enter_context(capture_logs())
        # However busy this machine is, it takes no blame from a source.
        running.enter_context(pytest.MonkeyPatch.context()).setattr(PullPace, "busy", lambda *_, **__: None)
        service = running.enter_context(open_one_shot(config, reconciles=True))
        runs = [with_peak_mb(partial(list, service.run_once(cell.name, SLOT))) for cell in cells]
        service.deliver()
    alerts = [alert for request in collector.requests for alert in json.loads(request.body)["alerts"]]
    said = {alert["labels"]["comparison"]: alert["annotations"]["reason"] for alert in alerts}

    assert {cell.kind for cell in cells if cell.fault == "down"} == {kind for kind, each in SOURCES.items() if each.is_pulled}
    wrong, table = [], Table("fault", "source", "run", "what is said", "seconds", "of", "MB more")
    for cell, ((run,), peak_mb) in zip(cells, runs, strict=True):
        assert isinstance(run, RunResult), run
        took_s, told = (run.finished_at - run.claim.started_at).total_seconds(), said.get(cell.name, "")
        figures = (f"{took_s:.1f}", f"{cell.deadline_s}", f"{peak_mb:.0f}")
        table.add_row(cell.fault, cell.kind, run.status, told.partition("; the baseline")[0], *figures)
        is_told = bool(re.fullmatch(cell.message, told)) if cell.told else not told
        is_bounded = len(told) < 600 and took_s < cell.deadline_s + GRACE_S + SLACK_S and peak_mb < cell.most_mb
        if not is_told or not is_bounded or "canary" in told or (run.status is RunStatus.FAILED) is not (cell.lost == 8):
            wrong.append((cell.name, run.status, told, *figures))
    Console(width=170).print(table)
    assert not wrong
    assert said["http-garbage"] in rankwatch("show", "http-garbage", cwd=tmp_path).stdout
