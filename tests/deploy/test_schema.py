"""The dashboards against Grafana's published schema: TypeScript's compiler takes each file as a value of its types."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy import dashboards
from servers import require

SCHEMA = Path(__file__).parent / "schema"
SPOILT = {
    "a key of a panel's options": ("rankwatch-comparison", '"cellGap"', '"celGap"'),
    "a key of a field": ("rankwatch-daemon", '"fillOpacity"', '"fillOpacty"'),
    "a property of an override": ("rankwatch-comparison", '"custom.fillBelowTo"', '"custom.fillBelow"'),
    "a word of a closed set": ("rankwatch-overview", '"displayMode": "list"', '"displayMode": "lists"'),
    "an option that newer versions dropped": ("rankwatch-overview", '"showHeader": true', '"showHeader": true, "footer": {}'),
    "a key of the dashboard": ("rankwatch-daemon", '"schemaVersion"', '"schemaVersoin"'),
    "a key of a variable": ("rankwatch-daemon", '"includeAll"', '"includesAll"'),
    "a key of a query": ("rankwatch-comparison", '"rawSql"', '"rawSQL"'),
    "a kind of panel": ("rankwatch-overview", '"state-timeline"', '"statetimeline"'),
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    """What the compiler says of each dashboard and of each spoilt copy, all in one go: most of its time is its start."""
    require("node", "nodejs")
    installed = SCHEMA / "node_modules"
    if not (installed / ".package-lock.json").exists():
        subprocess.run([require("npm"), "ci", "--prefer-offline"], cwd=SCHEMA, check=True, capture_output=True)
    folder = tmp_path_factory.mktemp("schema")
    for name in ("tsconfig.json", "package.json", "dashboards.ts"):
        shutil.copy(SCHEMA / name, folder)
    (folder / "node_modules").symlink_to(installed)
    texts = {name: (dashboards.FOLDER / f"{name}.json").read_text(encoding="utf-8") for name in dashboards.NAMES}
    spoilt = {what: texts[name].replace(right, wrong) for what, (name, right, wrong) in SPOILT.items()}
    files = {f"{number}.ts": what for number, what in enumerate([*texts, *spoilt])}
    for (file, _), text in zip(files.items(), [*texts.values(), *spoilt.values()], strict=True):
        (folder / file).write_text(f"import type {{ Board }} from './dashboards.js';\nexport const board: Board = {text};\n")
    compiler = installed / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        [require("node", "nodejs"), compiler, "-p", "."], cwd=folder, capture_output=True, text=True, check=False
    )
    found: dict[str, list[str]] = {what: [] for what in files.values()}
    for file, trouble in re.findall(r"^(\S+?)\(\d+,\d+\): (.*)$", done.stdout, flags=re.MULTILINE):
        found[files[file]].append(trouble)
    assert sum(map(len, found.values())), f"the compiler did not even find what was spoilt: {done.stdout} {done.stderr}"
    return found


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_a_dashboard_is_of_the_published_type(complaints: Mapping[str, list[str]], name: str) -> None:
    assert complaints[name] == []


@pytest.mark.parametrize("what", SPOILT)
def test_a_dashboard_that_is_misspelt_is_refused(complaints: Mapping[str, list[str]], what: str) -> None:
    _, _, wrong = SPOILT[what]
    word = re.findall(r"\w+", wrong)[-1]

    assert complaints[what], what
    assert any(word in trouble for trouble in complaints[what]) or "kind" in what
