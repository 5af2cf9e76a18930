"""Plugins in installed packages are found by name, used like built-in parts, and cannot do harm."""

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import EntryPoint, EntryPoints
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field, SecretStr

from commands import of_all
from factories import SLOT, changed, claim, comparison, pull
from forking import run_program
from kernels.reference import batch
from messages import URL, message, start
from monitor import parse, plugin_v1
from monitor.boundary import plugins
from monitor.measures.metrics import METRICS, score_all, scores
from monitor.model.errors import ConfigError, DeliveryError, MetricError, SourceError
from monitor.model.memory import Memory
from monitor.model.statistics import NoiseFloor
from monitor.pipeline.run import execute
from monitor.pipeline.run_measurement import measure_slot
from monitor.pipeline.run_scores import RunScores
from monitor.pipeline.stopwatch import Stopwatch
from monitor.receivers import RECEIVERS, ReceiverOptions, open_receivers, receiver_options
from monitor.service.composition import open_wiring
from monitor.settings.json_schema import json_schema
from monitor.settings.loader import example_text, parse_settings
from monitor.settings.translation import config_hash
from monitor.sources import SOURCES
from pipeline.canned import Canned, StillClock, arms, users
from places import ROOT
from settings.minimal import load_text
from tables import cells

SECRET = "canary-of-a-plugin"  # noqa: S105 - it is looked for
USERS = [f"u{number}" for number in range(7)]
HELD = threading.Event()
Lists = plugin_v1.ListCollector
Act = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _end_what_hangs():
    HELD.clear()
    yield
    HELD.set()


def fail(_):
    raise KeyError(SECRET)


def hang(_):
    return HELD.wait(60)


class ShopOptions(plugin_v1.Options):
    """What the shop does when it is asked."""

    does: str = Field(description="The name of what it does.")
    scores: bool | None = Field(None, description="Whether there are scores.")
    user: str = Field("who", description="Column of users.")
    user_ids: None = Field(None, description="Users are spelled as they are.")
    token: SecretStr = Field(SecretStr(SECRET), description="A secret.")
    pace: Annotated[int, plugin_v1.NOT_IN_HASH] = Field(1, description="Decides nothing.")


DOES = {
    "well": lambda user, lists: lists.add(user, [1, 2, 3]),
    "raise": lambda user, _: fail(user),
    "exit": lambda user, _: sys.exit(user),
    "hang": lambda user, _: hang(user),
    "strangers": lambda user, lists: lists.add(
        user if user < "u2" else f"x{user < 'u4'}", [1, 2, 3]
    ),
    "nan": lambda user, lists: lists.add(user, [1, 2, 3], [2.0, float("nan"), 1.0]),
    "huge": lambda user, lists: lists.add(user, [*range(20_000)]),
    "long": lambda user, lists: lists.add(user, [*range(50)]),
    "reasons": lambda user, lists: lists.fail(
        user, plugin_v1.CoverageReason("rate_limited"), "wait\n" + "!" * 9999
    ),
}


class Shop(plugin_v1.Table):
    """Lists and users of a shop."""

    def collect(self, request, lists):
        for user in request.users:
            DOES[self._options.does](user, lists)

    def where(self, slot):
        return "the shop"

    def batches(self, slot, columns):
        yield {"who": USERS}


class Odd(plugin_v1.Similarity):
    """A metric that returns what a test sets."""

    name = "odd"
    uneven = source = "a test"
    gives: Act = staticmethod(lambda alignment: np.ones(len(alignment.short)))

    def measure(self, alignment):
        return Odd.gives(alignment)


class Bell:
    """A receiver that does what a test sets."""

    treatment = plugin_v1.Treatment()
    ring: Act = staticmethod(fail)

    def __init__(self, options, name, *, external_url):
        assert (name, external_url) == ("bell", URL)

    def send(self, message, *, now):
        Bell.ring(message)


READER = plugin_v1.Reader(ShopOptions, "brought:Shop", "A shop.")
SHOP = plugin_v1.SourceKind(lists=READER, users=READER)
BROUGHT = {
    "sources": {"shop": SHOP},
    "metrics": {"odd": Odd},
    "receivers": {"bell": (plugin_v1.ReceiverEntry, Bell)},
}
WHO = "plugin of package extras 1.0 ({0} = brought:{0} in rankwatch.{1}) "


@pytest.fixture
def install(monkeypatch):
    """Have packages of these names bring all of that, by group and name."""

    def installed(brought=BROUGHT, *, packages=("extras",)):
        module: Any = ModuleType("brought")
        module.Shop = Shop
        entries = []
        for group, named in brought.items():
            vars(module).update(named)
            for name, package in product(named, packages):
                found: Any = EntryPoint(name, f"brought:{name}", f"rankwatch.{group}")
                entries.append(found._for(SimpleNamespace(name=package, version="1.0")))
        monkeypatch.setitem(sys.modules, "brought", module)
        monkeypatch.setattr(
            plugins, "_entry_points", lambda group: EntryPoints(entries).select(group=group)
        )
        for registry in (SOURCES, METRICS, RECEIVERS):
            monkeypatch.setattr(registry, "_plugins", {})

    return installed


def watching(does, more=""):
    """A comparison with the shop, and another comparison."""
    usual = (
        "every: 15m, k: 3, metrics: [overlap], baseline: {shop: {does: well}}, users: {shop: "
        "{does: well}}"
    )
    feed = f"name: feed, {usual}, candidate: {{shop: {{does: {does}}}}}{more}"
    return (
        f"comparisons: [{{{feed}}}, {{name: beside, {usual}, candidate: {{shop: {{does: "
        "well}}}]\n"
    )


DONE = """
# it does         counts            said
raise             unavailable 7     {who} failed with KeyError in line
exit              unavailable 7     failed with SystemExit in line
hang              timeout 7         no answer when the run's deadline passed
strangers         wrong_user 5      5 answers were for other users, such as xTrue; the baseline answered 7 of 7; for example u2
nan, scores: true  malformed 7      a score is not a finite number
huge              too_large 7       a list has more than 10,000 items
reasons           rate_limited 7    wait!!!
long              -                 -
"""


@pytest.mark.parametrize("does, counts, said", cells(DONE))
def test_faults_of_a_source_are_reported_with_counts_and_do_not_disturb_other_comparisons(
    does, counts, said, install
):
    install()
    deadline = "3s" if does == "hang" else "60s"
    watched = open_wiring(load_text(watching(does, f", deadline: {deadline}"))).watched.values()
    with ThreadPoolExecutor() as threads:
        runs = threads.map(
            lambda each: execute(each.comparison, each.sources, claim(), Memory(), StillClock()),
            watched,
        )
        feed, beside = runs
    assert feed.coverage
    assert beside.coverage
    assert (beside.status, beside.coverage.all.paired, beside.reason) == ("ok", 7, None)
    assert all(each.is_live for each in watched)
    assert [
        f"{reason} {count}" for (_, reason), count in feed.coverage.all.users_by_reason.items()
    ] == [counts] * (counts != "-")
    told = feed.reason or "-"
    assert said.format(who=WHO.format("shop", "sources").strip()) in told
    assert SECRET not in told
    assert len(told) < 700


def test_a_plugin_that_hangs_takes_a_few_threads_and_is_called_again_after_it_returns(monkeypatch):
    monkeypatch.setattr(plugins, "_MOST_CALLS_AT_ONCE", 2)
    guard, told = plugins.Guard("it", SourceError), [""]
    while told[-1] != "it has not returned from earlier calls":
        with pytest.raises(SourceError) as caught:
            guard.call(lambda: hang(None), 0.01)
        told.append(str(caught.value))
    assert {*told[1:-1]} == {"it did not return within 0.01 s"}
    HELD.set()
    back = ""
    while not back:
        with suppress(SourceError):
            back = guard.call(lambda: "back", 60)


LISTS = pull({"a": [1, 2, 3], "b": [4, 5, 6]}), pull({"a": [1, 3, 2], "b": [7, 8, 9]})
BOTH = comparison(k=3, metrics=("odd", "overlap"), rules=(), noise_floor=NoiseFloor.SERVE)
ALONE = changed(BOTH, metrics=("overlap",))


def found_by(what, batch_users=None):
    """All results of metrics in a run, and what the run could not measure."""
    gathered, asked = RunScores(), arms(*LISTS, users("a", "b"), second_baseline=Canned(LISTS[0]))
    found = measure_slot(
        what,
        asked,
        SLOT,
        Memory(),
        Stopwatch(StillClock()),
        scores=gathered,
        batch_users=batch_users,
    )
    told = [
        (each.users.tolist(), {name: values.tolist() for name, values in each.by_metric.items()})
        for each in gathered
    ]
    return found.run.summaries, told, found.run.split, found.run.evidence, "; ".join(found.left_out)


@pytest.mark.parametrize(
    "gives, said",
    [
        (fail, WHO.format("odd", "metrics") + "failed with KeyError in line"),
        (hang, WHO.format("odd", "metrics") + "did not return within 0.2 s"),
        (
            lambda alignment: alignment.short + 1.5,
            "the metric returned 4.5: it must return 2 numbers from 0 to 1",
        ),
        (
            lambda _: [1.0],
            "the metric returned an array of shape (1,): it must return 2 numbers from 0 to 1",
        ),
    ],
)
def test_a_run_goes_on_without_a_metric_that_fails_and_says_so(gives, said, install, monkeypatch):
    install()
    monkeypatch.setattr(scores, "MEASURING_S", 0.2 if gives is hang else 60)
    monkeypatch.setattr(Odd, "gives", staticmethod(gives))
    *found, left_out = found_by(BOTH)
    assert (*found, "") == found_by(ALONE)
    assert left_out.startswith(f"odd was not measured: {said}")
    with pytest.raises(MetricError, match=r"^odd was not measured: "):
        score_all(batch([([1, 2], [2, 1]), ([1], [2])]), [parse("odd")])


def test_a_metric_that_fails_for_some_users_has_no_results(install, monkeypatch):
    install()
    one_by_one = iter([0.5, 0.5, 7.0])
    monkeypatch.setattr(Odd, "gives", staticmethod(lambda _: [next(one_by_one)]))
    *found, evidence, left_out = found_by(BOTH, batch_users=1)
    assert tuple(found) == found_by(ALONE, batch_users=1)[:3]
    assert "odd" not in str(evidence)
    assert (
        left_out
        == "odd was not measured: the metric returned 7: it must return 1 numbers from 0 to 1"
    )


def test_a_metric_cannot_change_the_data_of_other_metrics(install, monkeypatch):
    install()
    monkeypatch.setattr(
        Odd, "gives", staticmethod(lambda alignment: alignment.positions.fill(0) or np.ones(2))
    )
    metrics = [parse(name) for name in ("odd", "overlap@1", "overlap")]
    found = score_all(batch([([1, 2], [2, 1]), ([3, 4], [5, 6])]), metrics)
    assert [values.tolist() for values in found.values()] == [[1, 1], [0, 0], [1, 0]]


def refuse(_):
    raise DeliveryError("no\nnever" + "!" * 1000, permanent=True, of_message=True)


@pytest.mark.parametrize(
    "ring, is_final, said",
    [
        (fail, False, "bell: {who}failed with KeyError in line"),
        (hang, False, "bell: {who}did not return within 0.2 s"),
        (refuse, True, "no never!!!"),
    ],
)
def test_a_receiver_that_fails_is_tried_again_unless_it_says_otherwise(
    ring, is_final, said, install, monkeypatch
):
    install()
    monkeypatch.setattr(receiver_options, "PLUGIN_GRACE_S", 0.1)
    monkeypatch.setattr(Bell, "ring", staticmethod(ring))
    entry = ReceiverOptions.model_validate(
        {"bell": {"timeout": "100ms" if ring is hang else "20s"}}
    )
    (bell,) = open_receivers([entry], external_url=URL)
    with pytest.raises(DeliveryError) as caught:
        bell.send(message(start()), now=SLOT)
    assert caught.value.permanent is caught.value.of_message is is_final
    assert caught.value.may_be_known is not is_final
    assert str(caught.value).startswith(said.format(who=WHO.format("bell", "receivers")))
    assert len(str(caught.value)) <= 300
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "group, name, found, said",
    [
        (
            "sources",
            "http",
            SHOP,
            "the name is taken by a built-in one, which is used: uninstall a package",
        ),
        (
            "sources",
            "json",
            SHOP,
            "must be a SourceKind whose lists are pulled, and its name must not be an attribute",
        ),
        (
            "metrics",
            "odd",
            SHOP,
            "must be a Metric that is named odd, has a docstring, and declares",
        ),
        ("metrics", "even", Odd, "must be a Metric that is named even"),
        (
            "receivers",
            "bell",
            Bell,
            "must be a pair of a ReceiverEntry and a function that opens its receiver",
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_is_reported_with_its_package_and_breaks_nothing(
    group, name, found, said, install
):
    install({group: {name: found}})
    (problem,) = (*SOURCES.problems(), *METRICS.problems(), *RECEIVERS.problems())
    assert problem.startswith(f"{WHO.format(name, group).strip()}: {said}")
    assert parse_settings(example_text(), name="x", base_dir=ROOT, environ={}).comparisons
    json_schema()


def test_two_packages_with_the_same_name_are_both_reported_when_it_is_used(install):
    install(packages=("a", "b"))
    with pytest.raises(
        MetricError,
        match=r"package a 1.0 \(odd = .*\) and of b 1.0 \(odd = .*\): the name is taken twice",
    ):
        parse("odd")


UNIMPORTABLE = """
import nothing  cannot be imported (ModuleNotFoundError nothing)
import monitor.plugin_v2  was written for version 2 of the port, and this rankwatch has version 1: install
raise SystemExit("no")  cannot be imported (SystemExit in line 1 of brought.py): install the packages that it needs, or
"""


@pytest.mark.parametrize("code, said", cells(UNIMPORTABLE))
def test_the_error_says_why_a_plugin_cannot_be_imported(code, said, install, tmp_path, monkeypatch):
    install()
    monkeypatch.delitem(sys.modules, "brought")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "brought.py").write_text(code)
    with pytest.raises(ConfigError) as caught:
        load_text(watching("well").replace("[overlap]", "[odd]") + "receivers: [{bell: {}}]\n")
    lines = str(caught.value).splitlines()
    assert len(lines) == 9
    assert all(said in line for line in lines)


def test_a_configuration_without_plugins_does_not_search_for_plugins(monkeypatch):
    monkeypatch.setattr(plugins, "_entry_points", fail)
    parse_settings(example_text(), name="x", base_dir=ROOT, environ={})
    parse("rbo(p=0.9)")


def test_options_of_a_plugin_are_in_the_hash_and_schema_and_errors_but_secrets_are_not(install):
    install()
    plain, same, other = (
        load_text(watching(does)).comparisons[0]
        for does in ("well", "well, pace: 2", "well, user: name")
    )
    assert config_hash(plain) == config_hash(same) != config_hash(other)
    assert SECRET not in repr(plain)
    schema = json_schema()["$defs"]
    shop = schema["SourceOptions"]["properties"]["shop"]
    assert (shop["description"], shop["properties"]["does"]["description"]) == (
        "A shop.",
        "The name of what it does.",
    )
    assert {"required": ["shop"]} in schema["SourceOptions"]["oneOf"]
    assert "bell" in schema["ReceiverOptions"]["properties"]
    with pytest.raises(
        ConfigError, match=re.escape('candidate.shop.dose: unknown key; did you mean "does"?')
    ):
        load_text(watching("well, dose: 1"))


@pytest.mark.integration
def test_the_example_passes_the_contracts_in_its_own_tests_and_is_used_like_what_is_built_in(
    tmp_path,
):
    home, work, example = tmp_path / "installed", tmp_path / "work", ROOT / "tests/plugin_example"
    files = {
        "a/u1.json": "[1, 2]",
        "b/u1.json": "[2, 1]",
        "users.csv": "id\nu1\n",
        "rankwatch.yaml": EXAMPLE,
    }
    files["test_contracts.py"] = (example / "test_contracts.py").read_text()
    for path, text in files.items():
        (work / path).parent.mkdir(exist_ok=True, parents=True)
        (work / path).write_text(text)
    env = {**os.environ, "PYTHONPATH": f"{home}:{ROOT}"}

    def run(*command):
        started = [sys.executable, "-m", *command]
        return run_program(started, cwd=work, env=env)

    offline = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    copied = str(shutil.copytree(example, tmp_path / "example"))
    installed = run("pip", "install", *offline, "--target", str(home), copied)
    tested = run("pytest", "-q", "-p", "no:cloudcoil")
    assert "16 passed" in tested.stdout, f"{installed} {tested}"

    ran = run("monitor", "run-once", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert of_all(json.loads(ran.stdout))["same_top"]["mean"] == 0
    assert "TopDiffers" in (work / "log.txt").read_text()


EXAMPLE = """
comparisons:
  - name: feed
    every: 15m
    k: 2
    baseline: {shelf: {folder: a}}
    candidate: {shelf: {folder: b}}
    users: {file: {path: users.csv, user: id}}
    metrics: [same_top]
    rules: [{alert: TopDiffers, metric: same_top, below: 0.5, for: 1, min_users: 1}]
receivers: [logbook: {path: log.txt}]
"""
