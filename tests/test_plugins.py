"""What installed packages bring: found by name, used like what is built in, and kept from doing harm."""

import json
import re
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field, SecretStr

from factories import SLOT, changed, claim, comparison, pull
from kernels.reference import batch as batch_of
from messages import URL, message, start
from monitor import parse, plugins
from monitor import plugin_v1 as port
from monitor.errors import ConfigError, DeliveryError, MetricError, SourceError
from monitor.metrics import score_all, scores
from monitor.model.comparison import Comparison
from monitor.model.memory import Memory
from monitor.model.statistics import NoiseFloor
from monitor.pipeline.run import execute
from monitor.pipeline.run_measurement import Stopwatch, measure_slot
from monitor.pipeline.score import RunScores
from monitor.receivers import ReceiverOptions, fields, open_receivers
from monitor.service.composition import wire
from monitor.settings.json_schema import json_schema
from monitor.settings.loader import example_text, parse_settings
from monitor.settings.translation import config_hash
from pipeline.canned import Canned, StillClock, arms, users
from settings.minimal import load_text

ROOT = Path(__file__).parents[1]
SECRET = "canary-of-a-plugin"  # noqa: S105 - it is looked for
USERS = [f"u{number}" for number in range(7)]
HELD = threading.Event()


class ShopOptions(port.Options):
    """What the shop does when it is asked."""

    does: str = Field(description="The name of what it does.")
    user: str = Field("who", description="Column of users.")
    user_ids: None = Field(None, description="As they are.")
    token: SecretStr = Field(SecretStr(SECRET), description="A secret.")
    pace: Annotated[int, port.NOT_IN_HASH] = Field(1, description="Decides nothing.")


def collected(request: port.PullRequest, *more: str, scores: Any = None) -> port.Pull:
    lists = port.ListCollector(request.k, has_scores=scores is not None)
    for user in (*request.users, *more):
        lists.add(user, [1, 2, 3], scores)
    return lists.pull()


def altered(request: port.PullRequest, **changes: Any) -> port.Pull:
    return replace(found := collected(request), rankings=replace(found.rankings, **changes))


def fail(_: object) -> Any:
    raise KeyError(SECRET)


DOES: dict[str, Callable[[port.PullRequest], Any]] = {
    "well": collected,
    "raise": fail,
    "exit": sys.exit,
    "hang": lambda _: HELD.wait(60),
    "nothing": lambda _: None,
    "strangers": lambda asked: collected(replace(asked, users=asked.users[:2]), "x", "y"),
    "twice": lambda asked: altered(asked, users=asked.users[:1].repeat(len(asked.users))),
    "nan": lambda asked: collected(asked, scores=[3.0, float("nan"), 1.0]),
    "fractions": lambda asked: altered(asked, items=np.linspace(0, 1, 3 * len(asked.users))),
    "offsets": lambda asked: altered(asked, offsets=np.arange(len(asked.users), -1, -1)),
    "huge": lambda asked: altered(
        asked, items=np.arange(20_000 * len(asked.users)), offsets=np.arange(len(asked.users) + 1) * 20_000
    ),
    "long": lambda asked: altered(asked, items=np.arange(50 * len(asked.users)), offsets=np.arange(len(asked.users) + 1) * 50),
}


class Shop(port.Table):
    """Lists and users of a shop."""

    def pull(self, request: port.PullRequest) -> port.Pull:
        found: port.Pull = DOES[self._options.does](request)
        return found

    def where(self, slot: object) -> str:
        return "the shop"

    def batches(self, slot: object, columns: Any) -> Iterator[Any]:
        yield {"who": USERS}


class Odd(port.Similarity):
    """A metric that gives what it is told."""

    name = "odd"
    uneven = source = "a test"
    gives: Callable[[Any], Any] = staticmethod(lambda alignment: np.ones(len(alignment.short)))

    def measure(self, alignment: Any) -> Any:
        return Odd.gives(alignment)


class Bell:
    """Rings as it is told."""

    treatment = port.Treatment()
    ring: Callable[[Any], Any] = staticmethod(fail)

    def __init__(self, options: port.ReceiverEntry, name: str, *, external_url: str) -> None:
        assert (name, external_url) == ("bell", URL)

    def send(self, message: port.Message, *, now: object) -> None:
        Bell.ring(message)


READER = port.Reader(ShopOptions, "brought:Shop", "A shop.")
SHOP, BELL = port.SourceKind(lists=READER, users=READER), port.ReceiverKind(port.ReceiverEntry, Bell)
BROUGHT = {"sources": {"shop": SHOP}, "metrics": {"odd": Odd}, "receivers": {"bell": BELL}}
WHO = "plugin of package extras 1.0 ({0} = brought:{0} in rankwatch.{1}) "
Install = Callable[..., None]


@pytest.fixture(autouse=True)
def _end_what_hangs() -> Iterator[None]:
    HELD.clear()
    yield
    HELD.set()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Have packages of these names bring all of that, by group and name."""

    def installed(brought: Any, *packages: str) -> None:
        module = ModuleType("brought")
        vars(module).update(Shop=Shop, **{name: found for group in brought.values() for name, found in group.items()})
        monkeypatch.setitem(sys.modules, "brought", module)
        dists: list[Any] = [SimpleNamespace(name=name, version="1.0") for name in packages or ["extras"]]
        entries = [
            EntryPoint(name, f"brought:{name}", f"rankwatch.{group}")._for(dist)  # type: ignore[attr-defined] # as importlib does
            for group, names in brought.items() for name in names for dist in dists
        ]  # fmt: skip
        monkeypatch.setattr(
            plugins, "_entry_points", lambda group: EntryPoints(each for each in entries if each.group == group)
        )
        for registry in plugins._REGISTRIES:
            monkeypatch.setattr(registry, "_found", {})

    return installed


def watching(does: str, **keys: str) -> str:
    """A comparison with the shop, to which alone the keys belong, and one beside it."""
    shop = "{shop: {does: %s}}"
    usual = f"every: 15m, k: 3, metrics: [overlap], baseline: {shop % 'well'}, users: {shop % 'well'}"
    told = "".join(f", {key}: {value}" for key, value in keys.items())
    names = {f"beside, {usual}": "well", f"feed, {usual}{told}": does}
    return "comparisons:\n" + "".join(f"  - {{name: {start}, candidate: {shop % does}}}\n" for start, does in names.items())


@pytest.mark.parametrize(
    ("does", "counts", "said"),
    [
        ("raise", {"unavailable": 7}, WHO.format("shop", "sources") + "failed with KeyError in line"),
        ("exit", {"unavailable": 7}, "failed with SystemExit in line"),
        ("hang", {"timeout": 7}, "when the run's deadline passed after 3.0 s (such as u0, u1, u2, u3, u4)"),
        ("nothing", {"unavailable": 7}, "pull of a plugin gave NoneType, which is no answer to it"),
        ("strangers", {"wrong_user": 5}, "2 were answered who were not asked, such as x (users: u2, u3, u4, u5, u6)"),
        ("twice", {"duplicate_user": 1, "missing": 6}, "a user has more than one list (users: u0)"),
        ("nan", {"malformed": 7}, "a score is no finite number (such as u0, u1, u2, u3, u4)"),
        ("fractions", {"malformed": 7}, "expected a list of ids, found a list with float in it"),
        ("offsets", {"unavailable": 7}, "offsets of a plugin's lists do not fit: make them with ListCollector"),
        ("huge", {"too_large": 7}, "a list has more than 10,000 items"),
        ("long", {}, ""),
    ],
)
def test_what_a_source_does_wrong_is_told_with_counts_and_examples_and_disturbs_nobody(
    does: str, counts: dict[str, int], said: str, install: Install
) -> None:
    install(BROUGHT)
    watched = wire(load_text(watching(does, deadline="3s"))).watched.values()
    with ThreadPoolExecutor() as threads:
        runs = threads.map(lambda each: execute(each.comparison, each.arms, claim(), Memory(), StillClock()), watched)
        beside, feed = runs
    assert beside.coverage
    assert feed.coverage
    assert (beside.status, beside.coverage.all.paired, beside.reason) == ("ok", 7, None)
    assert all(each.is_live for each in watched)
    assert {reason: count for (_, reason), count in feed.coverage.all.reasons.items()} == counts
    assert said in (feed.reason or "")
    assert SECRET not in (feed.reason or "")


def test_what_hangs_costs_a_few_threads_and_is_called_again_once_it_has_come_back() -> None:
    guard, told = plugins.Guard("it", SourceError, most=2), [""]
    while told[-1] != "it has not come back from earlier calls":
        with pytest.raises(SourceError) as caught:
            guard.call(lambda: HELD.wait(60), 0.01)
        told.append(str(caught.value))
    assert {*told} == {"", "it did not come back within 0.01 s", told[-1]}
    HELD.set()
    while True:
        with suppress(SourceError):
            assert guard.call(lambda: "back", 60) == "back"
            break


LISTS = pull({"a": [1, 2, 3], "b": [4, 5, 6]}), pull({"a": [1, 3, 2], "b": [7, 8, 9]})
BOTH = comparison(k=3, metrics=("odd", "overlap"), rules=(), noise_floor=NoiseFloor.SERVE)


def found_by(what: Comparison, *, batch_users: int | None = None) -> tuple[Any, ...]:
    """All that a run tells of metrics, and what it could not measure."""
    gathered = RunScores()
    asked = arms(*LISTS, users("a", "b"), again=Canned(LISTS[0]))
    found = measure_slot(what, asked, SLOT, Memory(), Stopwatch(StillClock()), scores=gathered, batch_users=batch_users)
    scores = [(each.users.tolist(), {name: values.tolist() for name, values in each.by_metric.items()}) for each in gathered]
    return found.run.summaries, found.run.evidence, found.run.split, scores, "; ".join(found.left_out)


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        (fail, WHO.format("odd", "metrics") + "failed with KeyError in line"),
        (lambda _: HELD.wait(60), WHO.format("odd", "metrics") + "did not come back within"),
        (lambda alignment: alignment.short + 1.5, "gave 4.5, expected 2 numbers from 0 to 1"),
        (lambda alignment: alignment.short * -np.inf, "gave -inf, expected 2 numbers from 0 to 1"),
        (lambda _: [1.0], "gave an array of shape (1,), expected 2 numbers from 0 to 1"),
        (lambda _: "much", "failed with ValueError in line"),
    ],
)
def test_a_run_goes_on_without_a_metric_that_fails_and_says_so(
    gives: Any, said: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(BROUGHT)
    monkeypatch.setattr(scores, "MEASURING_S", 0.2 if "come back" in said else 60)
    monkeypatch.setattr(Odd, "gives", staticmethod(gives))
    *found, left_out = found_by(BOTH)
    assert (*found, "") == found_by(changed(BOTH, metrics=("overlap",)))
    assert left_out.startswith(f"odd not measured: {said}")


def test_a_metric_that_fails_for_some_users_is_told_of_nobody(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(BROUGHT)
    one_by_one = iter([0.5, 0.5, 7.0])
    monkeypatch.setattr(Odd, "gives", staticmethod(lambda _: [next(one_by_one)]))
    summaries, evidence, *found, left_out = found_by(BOTH, batch_users=1)
    usual, _, *more, _ = found_by(changed(BOTH, metrics=("overlap",)), batch_users=1)
    assert (summaries, found) == (usual, more)
    assert [each.user for each in evidence] == ["b"]
    assert "odd" not in str(evidence)
    assert left_out == "odd not measured: gave 7, expected 1 numbers from 0 to 1"


def test_what_a_metric_writes_into_what_it_is_given_reaches_no_other(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(alignment: Any) -> Any:
        alignment.positions[:] = 0
        return np.ones(2)

    install(BROUGHT)
    monkeypatch.setattr(Odd, "gives", staticmethod(write))
    found = score_all(batch_of([([1, 2], [2, 1]), ([3, 4], [5, 6])]), [parse("odd"), parse("overlap@1"), parse("overlap")])
    assert {name: values.tolist() for name, values in found.items()} == {"odd": [1, 1], "overlap@1": [0, 0], "overlap": [1, 0]}


def refuse(_: object) -> None:
    raise DeliveryError("no\nnever" + "!" * 1000, permanent=True, of_message=True)


@pytest.mark.parametrize(
    ("ring", "wanted", "said"),
    [
        (fail, (False, True, False), f"bell: {WHO.format('bell', 'receivers')}failed with KeyError"),
        (lambda _: HELD.wait(60), (False, True, False), f"bell: {WHO.format('bell', 'receivers')}did not come"),
        (refuse, (True, False, True), "no never!!!"),
    ],
)
def test_a_receiver_that_fails_is_tried_again_unless_it_says_otherwise(
    ring: Any, wanted: Any, said: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(BROUGHT)
    monkeypatch.setattr(fields, "GRACE_S", 0.1)
    monkeypatch.setattr(Bell, "ring", staticmethod(ring))
    timeout = "100ms" if "come" in said else "20s"
    (bell,) = open_receivers([ReceiverOptions.model_validate({"bell": {"timeout": timeout}})], external_url=URL)
    with pytest.raises(DeliveryError) as caught:
        bell.send(message(start()), now=SLOT)
    assert (caught.value.permanent, caught.value.may_be_known, caught.value.of_message) == wanted
    assert str(caught.value).startswith(said)
    assert len(str(caught.value)) <= 300
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("brought", "packages", "said"),
    [
        ({"sources": {"shop": SHOP}}, ["a", "b"], "brought:shop in rankwatch.sources) and of b 1.0 (shop = brought:shop"),
        ({"sources": {"http": SHOP}}, ["a"], "in rankwatch.sources): the name is taken by what is built in, which counts"),
        ({"sources": {"json": SHOP}}, ["a"], "must be a SourceKind whose lists are pulled, and its name no attribute"),
        ({"sources": {"shop": Shop}}, ["a"], "must be a SourceKind whose lists are pulled, and its name no attribute"),
        ({"metrics": {"odd": SHOP}}, ["a"], "must be a Metric that is named odd, and declare low, high, identical"),
        ({"metrics": {"even": Odd}}, ["a"], "must be a Metric that is named even"),
        ({"receivers": {"bell": Bell}}, ["a"], "must be a ReceiverKind, its options a ReceiverEntry, and its name"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_told_with_its_package_and_breaks_nothing(
    brought: Any, packages: list[str], said: str, install: Install
) -> None:
    install(brought, *packages)
    (problem,) = plugins.plugin_problems()
    assert problem.startswith("plugin of package a 1.0 (")
    assert said in problem
    assert parse_settings(example_text(), name="x", base_dir=ROOT, environ={}).comparisons
    json_schema()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_the_kind", "cannot be imported (ModuleNotFoundError: No module named 'nothing_of_the_kind')"),
        (
            "import monitor.plugin_v2",
            "was written for version 2 of the port, and this rankwatch has version 1: install versions",
        ),
        ("raise SystemExit('no')", "cannot be imported (SystemExit: no): install what it lacks, or uninstall it"),
    ],
)
def test_where_a_plugin_is_named_that_cannot_be_imported_the_error_says_why(
    code: str, said: str, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(BROUGHT)
    monkeypatch.delitem(sys.modules, "brought")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "brought.py").write_text(code)
    with pytest.raises(ConfigError) as caught:
        load_text(watching("well").replace("[overlap]", "[odd]") + "receivers: [{bell: {}}]\n")
    lines = str(caught.value).splitlines()
    assert len(lines) == 9
    assert all(said in line for line in lines)
    with pytest.raises(MetricError, match="odd = brought:odd"):
        parse("odd")


def test_who_names_no_plugin_does_not_look_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_entry_points", fail)
    parse_settings(example_text(), name="x", base_dir=ROOT, environ={})
    parse("rbo(p=0.9)")


def test_options_of_a_plugin_are_known_to_hash_schema_errors_and_nobody_sees_their_secrets(install: Install) -> None:
    install(BROUGHT)
    plain, same, other = (load_text(watching(does)).comparisons[-1] for does in ("well", "well, pace: 2", "well, user: name"))
    assert config_hash(plain) == config_hash(same) != config_hash(other)
    assert SECRET not in repr(plain)
    schema = json_schema()["$defs"]
    assert schema["ShopOptions"]["properties"]["does"]["description"] == "The name of what it does."
    assert {"required": ["shop"]} in schema["SourceOptions"]["oneOf"]
    assert "bell" in schema["ReceiverOptions"]["properties"]
    for wrong, told in {"dose: 1, does": 'dose: unknown key; did you mean "does"?', "token: 1, token_file": "not both"}.items():
        with pytest.raises(ConfigError, match=re.escape(told)):
            load_text(watching("well").replace("does", wrong))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """That of an environment in which the example is installed; what it depends on it finds where we do."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    (packages,) = home.glob("lib/python3.*/site-packages")
    (packages / "ours.pth").write_text("\n".join([str(ROOT), *(path for path in sys.path if path.endswith("-packages"))]))
    example = shutil.copytree(ROOT / "tests/plugin_example", home / "example")
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", str(example)]
    subprocess.run([home / "bin/python", *install], check=True, capture_output=True)
    return str(home / "bin/python")


def test_the_example_keeps_the_contracts_by_its_own_tests(python: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/plugin_example/test_contracts.py", tmp_path)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cloudcoil"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "18 passed" in done.stdout, done.stdout


def test_the_example_is_checked_run_and_notified_like_what_is_built_in(python: str, tmp_path: Path) -> None:
    for arm, items in {"a": "[1, 2]", "b": "[2, 1]"}.items():
        (tmp_path / arm).mkdir()
        (tmp_path / arm / "u1.json").write_text(items)
    (tmp_path / "users.csv").write_text("id\nu1\n")
    (tmp_path / "rankwatch.yaml").write_text(EXAMPLE)

    def rankwatch(*arguments: str) -> str:
        done = subprocess.run([python, "-m", "monitor", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert "rankwatch.yaml: valid, 1 comparison(s), 1 receiver(s)" in rankwatch("check")
    assert json.loads(rankwatch("run-once", "--json"))["summaries"]["same_top"]["all"]["mean"] == 0
    assert "TopDiffers" in (tmp_path / "log.txt").read_text()
    assert "Whether both lists begin with the same item" in rankwatch("metrics")
    assert '"shelf"' in rankwatch("config", "schema")


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
