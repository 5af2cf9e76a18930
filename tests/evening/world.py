"""The servers of an evening on call: two shops, all receivers, Prometheus and the daemon."""

import json
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from sqlalchemy import make_url

from deploy.shipped import text_of
from deploy.test_story import quicken
from faults import Shop
from forking import rankwatch
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm
from monitor.storage import SqlStore
from servers import free_port
from servers.alertmanager import AlertmanagerServer
from servers.certificates import self_signed
from servers.daemon import ServeProcess
from servers.heard import read_body, read_mail
from servers.pagerduty import KEY, FakePagerDuty
from servers.postgres import PASSWORD
from servers.prometheus import running_prometheus
from servers.proxy import Proxy, proxying
from servers.slack import FakeSlack
from servers.smtp import LOGIN, MailServer, running_mail_server
from servers.webhook import Collector, Reply, answer, running_webhook
from storage.worked import store_at

EVERY_S = 3
HEALTHY_RUNS = 20
DAYS = 12
"""The models repeat after this number of runs, so their lists are made once."""
PACE = 60
"""The rules of Prometheus and the routes of Alertmanager are this many times faster than the shipped ones."""
SHOPS = {"home-feed": Shop(seed=1, users=700), "newsletter": Shop(seed=2, users=100)}
COUNTRIES = {name: shop.values["country"].tolist() for name, shop in SHOPS.items()}
SECRETS = (KEY, PASSWORD, LOGIN[1], "canary-hook-secret", "canarycanarycanary", "canary-users-key")


@immutable
class Question:
    """A request for one list of an arm of a shop."""

    shop: str
    arm: Arm
    day: int
    row: int

    @property
    def country(self):
        return str(COUNTRIES[self.shop][self.row])

    def items(self, **other):
        """The right answer to this question, or to a question that differs in these fields."""
        question = replace(self, **other)
        return [
            f"SKU-{item}" for item in SHOPS[self.shop].rank(question.arm, question.day)[self.row]
        ]


Change = Callable[[Question], object]
"""The answer of an arm for one user. None leaves the user out."""


def answer_with(change, shop, arm, asked):
    """A reply that makes its lists when it is sent, at the same time as other replies."""

    def reply(collector, sock):
        minute, second = divmod(int(asked["slot"]), 100)
        day = (minute * 60 + second) // EVERY_S % DAYS
        lists = {
            user: change(Question(shop=shop, arm=arm, day=day, row=int(user[1:])))
            for user in asked["users"]
        }
        body = json.dumps({user: items for user, items in lists.items() if items is not None})
        answer(200, {"Content-Type": "application/json"}, body.encode())(collector, sock)

    return reply


@dataclass(kw_only=True)
class Evening:
    """Everything that runs.

    ``broken`` has the answers of arms with a fault. ``gates`` are proxies before servers.
    """

    folder: Path
    store: SqlStore
    hooks: tuple[Collector, Collector, Collector]
    mail: MailServer
    alertmanager: AlertmanagerServer
    gates: dict[str, Proxy]
    broken: dict[tuple[str, Arm], tuple[Change, Reply | None]] = field(default_factory=dict)
    daemons: list[ServeProcess] = field(default_factory=list)
    path: Path = Path()

    def respond(self, request):
        """How a recommender answers a batch of users."""
        _, shop, arm = request.path.split("/")
        change, reply = self.broken.get((shop, Arm(arm)), (Question.items, None))
        return reply or answer_with(change, shop, Arm(arm), request.json())

    def heard(self):
        """All messages that a receiver accepted."""
        bodies = [request.body for hook in self.hooks for request in hook.requests]
        return [*map(read_body, bodies), *(read_mail(mail.content) for mail in self.mail.mails)]

    def serve(self, name):
        """Start a daemon with this configuration. The newest one should lead."""
        self.path = self.folder / name
        self.daemons.append(ServeProcess(self.path, self.path.with_suffix(".log")))
        return self.daemons[-1]

    def kill_all(self):
        for daemon in self.daemons:
            daemon.kill()

    def reload(self, text):
        """Make the daemon read this configuration."""
        self.path.write_text(text)
        self.daemons[-1].send(signal.SIGHUP)

    def count_alerts(self, shop):
        """How many alerts of rankwatch Alertmanager has, of this shop or, without a name, of all shops."""
        labels = [alert["labels"] for alert in self.alertmanager.alerts()]
        return sum("incident" in each and shop in (each.get("comparison"), "") for each in labels)

    def newest(self, shop):
        """The newest run of this shop or, without a name, of all shops."""
        return self.store.history.runs(comparison=shop or None, limit=1)[0]


CONFIG = """
database: {database}
lease: 5s
database_alert_after: {every}s
privacy: {{users: hmac, key_file: users.key}}
receivers:
- pagerduty: {{routing_key: {key}, url: {pagerduty}}}
- slack: {{url: {slack}}}
- email:
    {{host: 127.0.0.1, port: {mail_port}, sender: a@example.com, to: [b@example.com],
    username: {login[0]}, password: {login[1]}, ca_file: {certificate}}}
- webhook: {{url: {webhook}, secret: canary-hook-secret}}
- alertmanager: {{urls: [{alertmanager}], labels: {{job: rankwatch}}}}
comparisons:
"""
COMPARISON = """
- name: {shop}
  every: {every}s
  deadline: 2900ms
  k: 10
  users: {{file: {{path: {shop}.csv, user: user_id}}, segments: [country]}}
  baseline: {{http: &{shop} {{url: "http://127.0.0.1:{port}/{shop}/baseline", method: POST,
    batch: {batch}, concurrency: 2, timeout: 2s, retries: 0,
    body: {{users: "{{users}}", slot: "{{slot:%M%S}}"}}}}}}
  candidate: {{http: {{<<: *{shop}, url: "http://127.0.0.1:{gate}/{shop}/candidate"}}}}
  metrics: [rbo(p=0.9), overlap]
  rules: default
"""


def write_users(folder):
    for name, shop in SHOPS.items():
        rows = (
            f"{user},{country}\n" for user, country in zip(shop.names, COUNTRIES[name], strict=True)
        )
        (folder / f"{name}.csv").write_text("user_id,country\n" + "".join(rows))
    (folder / "users.key").write_text("canary-users-key" * 3)
    (folder / "users.key").chmod(0o600)


@contextmanager
def open_evening(folder, server, url):
    """Start everything. Both comparisons have a healthy past."""
    write_users(folder)
    certificate = self_signed(folder)
    with ExitStack() as stack:
        enter = stack.enter_context
        shops, *hooks = (enter(running_webhook()) for _ in range(4))
        port = int(shops.url.rpartition(":")[2])
        gates = {name: enter(proxying(port)) for name in SHOPS} | {
            "database": enter(proxying(server.port))
        }
        evening = Evening(
            folder=folder,
            store=enter(store_at(url, create=True)),
            hooks=(hooks[0], hooks[1], hooks[2]),
            mail=enter(running_mail_server(certificate)),
            alertmanager=AlertmanagerServer(
                folder / "alertmanager",
                config=quicken(text_of("alertmanager/alertmanager.yml"), PACE),
            ),
            gates=gates,
        )
        shops.respond = evening.respond
        duty, slack = FakePagerDuty(hooks[0]), FakeSlack(hooks[1])
        stack.callback(evening.alertmanager.stop)
        evening.alertmanager.start()
        to, ports = evening.alertmanager.url, (free_port(), free_port())
        database = make_url(url).set(port=gates["database"].port)
        config = CONFIG.format(
            database=database.render_as_string(hide_password=False),
            every=EVERY_S,
            key=KEY,
            pagerduty=duty.url,
            slack=slack.url,
            mail_port=evening.mail.port,
            login=LOGIN,
            certificate=certificate,
            webhook=hooks[2].url,
            alertmanager=to,
        )
        for name, shop in SHOPS.items():
            ways = {"port": port, "gate": gates[name].port, "batch": shop.users // 10}
            config += COMPARISON.format(shop=name, every=EVERY_S, **ways)
        for number, own in enumerate(ports):
            (folder / f"{number}.yaml").write_text(f"listen: 127.0.0.1:{own}\n{config}")
        replay(folder, server)
        rules = folder / "rankwatch.rules.yml"
        rules.write_text(quicken(text_of("prometheus/rankwatch.rules.yml"), PACE))
        stack.callback(evening.kill_all)
        evening.serve("0.yaml")
        targets = [f"127.0.0.1:{own}" for own in ports]
        watching = running_prometheus(
            *targets, rules=[rules], interval="1250ms", alertmanager=to.removeprefix("http://")
        )
        yield evening, enter(watching)
        assert duty.complaints + slack.complaints == []


def replay(folder, server):
    """Run the slots just before now, as if live."""
    with server.connect() as connection:
        ((now,),) = connection.execute("SELECT now()").fetchall()
    first = now - timedelta(seconds=EVERY_S * HEALTHY_RUNS)
    period = ("--since", first.isoformat(), "--until", now.isoformat(), "--config", "0.yaml")
    with ThreadPoolExecutor() as pool:
        commands = [("replay", name, *period) for name in SHOPS]
        for done in pool.map(lambda each: rankwatch(*each, cwd=folder, timeout_s=240), commands):
            assert done.returncode == 0, done.stdout + done.stderr
