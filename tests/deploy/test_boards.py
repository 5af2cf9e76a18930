"""Every dashboard: its queries, of which test_story.py asks a real Prometheus, and its conventions."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy import dashboards
from deploy.dashboards import labels_by_name, unknown_names
from forking import run_program
from servers import require
from tables import cells


@pytest.fixture(params=dashboards.NAMES)
def board(request):
    return dashboards.read(request.param)


def test_a_standby_daemon_changes_no_number():
    """Series that all daemons show from one database are merged by `max` before anything is added up."""
    of_each = {"rankwatch_build_info", "rankwatch_leader"}
    for name in dashboards.NAMES:
        for title, target in dashboards.promql(dashboards.read(name)):
            summed = re.findall(
                r"\b(?:sum|count|avg)(?: by \([^)]*\))? ?\((?:1 - )?(rankwatch_\w+)", target["expr"]
            )
            assert set(summed) <= of_each, title


def test_every_variable_is_a_label_of_its_series(board):
    for name, variable in dashboards.variables(board).items():
        if variable["type"] == "query":
            query = variable["query"]["query"]
            ((series, label),) = re.findall(r"^label_values\((\w+)\b.*, (\w+)\)$", query)
            assert label in labels_by_name()[series], name


def test_every_query_uses_series_and_labels_that_rankwatch_shows(board):
    assert {*dashboards.NAMES} == {path.stem for path in dashboards.FOLDER.iterdir()}
    for title, target in dashboards.promql(board):
        assert not unknown_names(target["expr"], target.get("legendFormat", "")), title


WRONG = """
sum(rankwatch_no_such_series)           -               rankwatch_no_such_series
rankwatch_leader{segment="all"}         -               segment
sum by (colour) (rankwatch_runs_total)  -               colour
rankwatch_leader                        {{comparison}}  comparison
"""


def test_a_query_over_what_nothing_shows_is_found():
    for query, legend, name in cells(WRONG):
        assert unknown_names(query, legend) == {name}


BUILT_IN = {"__all", "__rate_interval", "__value", "__url_time_range", "__timeFilter"}


def walk(node):
    """Every key and value at any depth."""
    pairs = enumerate(node) if isinstance(node, list) else node.items()
    for key, child in pairs:
        yield key, child
        if isinstance(child, dict | list):
            yield from walk(child)


def texts(board):
    return [value for _, value in walk(board) if isinstance(value, str)]


def test_every_variable_is_used_and_every_one_used_is_there_has_a_label_and_refreshes_with_the_time(
    board,
):
    variables = dashboards.variables(board)
    parts = {key: value for key, value in board.items() if key != "links"}
    used = set(re.findall(r"\$\{?(\w+)", "\n".join(texts(parts))))
    assert used - BUILT_IN == set(variables)
    for name, variable in variables.items():
        assert variable["label"], name
        assert variable["type"] != "query" or variable["refresh"] == 2, name
        if "multi" in variable:
            assert variable["includeAll"] == variable["multi"], name
        else:
            assert variable["type"] == "textbox", name
    for operator, name in re.findall(r'(=~|!~|!=|=)"\$(\w+)"', "\n".join(texts(board))):
        if name in variables:
            # Many values are matched as a pattern.
            assert (operator == "=~") is bool(variables[name].get("multi"))


def test_links_lead_to_dashboards_and_variables_that_exist_and_to_the_others_by_their_tag(board):
    (link,) = board["links"]
    assert link["type"] == "dashboards"
    assert set(link["tags"]) <= set(board["tags"])
    assert link["includeVars"]
    assert link["keepTime"]
    for url in (value for key, value in walk(board) if key == "url"):
        if not url or url.startswith("${rankwatch}/c/"):
            continue
        ((uid, query),) = re.findall(r"^/d/([\w-]+)(?:\?(.*))?$", url)
        there = dashboards.variables(dashboards.read(uid))
        for part in query.removesuffix("&${__url_time_range}").split("&"):
            # Grafana writes var-name=value in place of ${name:queryparam}.
            name = re.fullmatch(r"\$\{(\w+):queryparam\}|var-(\w+)=\$\{__value\.raw\}", part)
            assert name, part
            assert (name[1] or name[2]) in there, part


SCHEMA = Path(__file__).parent / "schema"


@pytest.mark.integration
def test_dashboards_are_of_the_published_type(tmp_path):
    require("node", "nodejs")
    installed = SCHEMA / "node_modules"
    if not (installed / ".package-lock.json").exists():
        subprocess.run(
            [require("npm"), "ci", "--prefer-offline"], cwd=SCHEMA, check=True, capture_output=True
        )
    for name in ("tsconfig.json", "package.json", "dashboards.ts"):
        shutil.copy(SCHEMA / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(installed)
    texts = {name: (dashboards.FOLDER / f"{name}.json").read_text() for name in dashboards.NAMES}
    texts["misspelt"] = texts["rankwatch-comparison"].replace('"cellGap":', '"celGap":')
    for name, text in texts.items():
        (tmp_path / f"{name}.ts").write_text(
            f"import type {{ Board }} from './dashboards.js';\nexport const board: Board = {text};\n"
        )
    command = [require("node", "nodejs"), str(installed / "typescript" / "bin" / "tsc"), "-p", "."]
    done = run_program(command, cwd=tmp_path)
    assert set(re.findall(r"^(\S+?)\.ts\(", done.stdout, flags=re.MULTILINE)) == {"misspelt"}, (
        done.stdout + done.stderr
    )
