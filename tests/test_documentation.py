"""Documentation that lags behind the code fails here."""

import json
import re

import pytest
from typer.main import get_command

import generated
from forking import run_program
from json_keys import KEYS, unlisted
from monitor import plugin_v1
from monitor.cli.main import EPILOG, app
from monitor.cli.output import INTERNAL_EXIT, OUTPUT_EXIT, SOURCE_EXIT, USAGE_EXIT, VERDICT_EXITS
from monitor.export.exposition import DAEMON_GAUGES
from monitor.export.series import SERIES_PREFIX
from monitor.measures.metrics import METRICS
from monitor.model import errors
from monitor.receivers import RECEIVERS
from monitor.sources import SOURCES
from monitor.storage import schema_version
from monitor.web.app import describe_api
from places import ROOT
from servers import require

README, CLI_GUIDE, DEPLOYING = (
    (ROOT / name).read_text()
    for name in ("README.md", "docs/reference/commands.md", "docs/how-to/one-run.md")
)
EXIT_CODES = re.findall(r"(\d+) [a-z]", EPILOG.partition("; gate:")[0])


def commands(command, path=()):
    """Every command and subcommand with its names, the root without any."""
    yield path, command
    for name in getattr(command, "commands", ()):
        yield from commands(command.get_command(None, name), (*path, name))


COMMANDS = dict(commands(get_command(app)))
LEAVES = [path for path, command in COMMANDS.items() if not hasattr(command, "commands")]


def one_line(text):
    return " ".join(text.split())


def section(text, title):
    """The text below that heading."""
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows():
    """Lines of the table of commands."""
    return [line for line in CLI_GUIDE.splitlines() if line.startswith("| `rankwatch ")]


def test_readme_is_read_at_one_sitting():
    assert len(README.encode()) <= 12_000


def test_what_is_generated_is_as_the_code_says():
    stale = [str(path) for path, text in generated.texts() if path.read_text() != text]
    assert not stale, "run: make generated"


def test_the_schema_that_is_wanted_is_named():
    assert f"Schema {schema_version.newest_version()}." in (ROOT / "CHANGELOG.md").read_text()
    assert (
        f"has the first schema, {schema_version.newest_version()}."
        in (ROOT / "docs/how-to/upgrade.md").read_text()
    )


def test_the_number_of_measures_is_theirs():
    assert f"**{len(METRICS)} exact metrics.**" in README


def test_the_reference_has_a_row_and_a_section_for_every_command_and_names_its_options():
    named = [row.partition("rankwatch ")[2].partition("`")[0] for row in rows()]
    assert sorted(tuple(name.split()) for name in named) == sorted(LEAVES)
    for path in LEAVES:
        told = CLI_GUIDE.partition(f"\n### rankwatch {' '.join(path)}\n")[2].partition("\n##")[0]
        options = [name for one in COMMANDS[path].params for name in one.opts if name[0] == "-"]
        assert not [name for name in options if name not in told], path


def test_every_command_and_each_of_its_options_has_help():
    for path, command in COMMANDS.items():
        assert command.help, path
        assert not [one.name for one in command.params if not getattr(one, "help", None)], path


def test_the_guide_to_commands_and_help_state_the_same_exit_codes():
    assert EPILOG.partition(";")[0] in one_line(CLI_GUIDE)
    assert " ".join(EXIT_CODES) == "0 1 2 3 4 5 74 130 143"


def test_the_guide_lists_the_keys_of_the_api_and_no_others():
    code = "".join(path.read_text() for path in (ROOT / "monitor").rglob("*.py"))
    assert unlisted([{"scores": {"any metric": 1}, "planted": {"at": 1}}]) == {"planted"}
    words = set(re.findall(r"\w+", code))
    assert not {key for key in KEYS if key.rstrip("0123456789") not in words}
    for name, schema in describe_api()["components"]["schemas"].items():
        for key, shape in schema.get("properties", {}).items():
            assert key in KEYS, (name, key)
            assert bool(KEYS[key]) >= ("additionalProperties" in shape), (name, key)


def tree(kind):
    yield kind
    for inner in kind.__subclasses__():
        yield from tree(inner)


def test_the_tree_of_errors_states_each_exit_code():
    ours = [kind for kind in tree(errors.MonitorError) if kind.__module__ == "monitor.model.errors"]
    stated = dict(re.findall(r"(?m)^[ │├└─]*(\w+Error) +(\d+)", errors.__doc__ or ""))
    assert stated == {kind.__name__: str(kind.exit_code) for kind in ours}
    assert {*stated.values(), str(OUTPUT_EXIT), str(SOURCE_EXIT)} <= {*EXIT_CODES}


def test_the_guide_and_its_help_state_the_exit_codes_of_the_gate():
    of_gate = (
        one_line(CLI_GUIDE)
        .partition("Only `rankwatch gate` uses")[2]
        .partition("never with a verdict")[0]
    )
    for text in (of_gate, COMMANDS["gate",].help):
        named = set(re.findall(r"\b\d+\b", text))
        assert (
            set(map(str, (*VERDICT_EXITS.values(), USAGE_EXIT, INTERNAL_EXIT, OUTPUT_EXIT)))
            <= named
        )


def test_the_description_of_the_api_has_the_options_of_gate_with_their_defaults():
    known = [(each.name, each.required, each.default) for each in COMMANDS["gate",].params][1:7]
    told = describe_api()["paths"]["/api/v1/gate/{name}"]["get"]["parameters"][1:-1]
    assert [
        (each["name"], each["required"], each["schema"].get("default") or None) for each in told
    ] == known


def test_the_guide_names_every_environment_variable_that_the_program_reads():
    source = "\n".join(path.read_text() for path in sorted((ROOT / "monitor").rglob("*.py")))
    read = {
        *re.findall(r'environ(?:\.get\(|\[)\s*"(\w+)"', source),
        *re.findall(r'"(RANKWATCH_\w+)"', source),
    }
    handed_on = {"PYTHONPATH"}
    assert read - handed_on >= {
        "RANKWATCH_CONFIG",
        "RANKWATCH_PUSH",
        "RANKWATCH_ENGINE",
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
    }
    listed = CLI_GUIDE.partition("| environment variable |")[2].partition("\n\n")[0]
    assert not {name for name in read - handed_on if f"`{name}`" not in listed}


def test_what_run_once_leaves_out_is_documented():
    documented = section(DEPLOYING, "Without a daemon")
    assert not {name for name in DAEMON_GAUGES if f"`{SERIES_PREFIX}{name}`" not in documented}
    wanted = {
        name
        for one in COMMANDS["run-once",].params
        for name in one.opts
        if name.startswith("--textfile")
    }
    assert not {name for name in wanted if name not in documented}


@pytest.mark.integration
def test_the_rules_for_those_without_a_daemon_are_rules(tmp_path):
    path = tmp_path / "rules.yml"
    path.write_text(
        section(DEPLOYING, "Without a daemon").partition("```yaml\n")[2].partition("```")[0]
    )
    command = [require("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(path)]
    checked = run_program(command)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "2 rules found" in checked.stdout


def test_the_guide_for_plugins_names_every_name_of_the_port():
    guide = (ROOT / "docs/contribute/plugins.md").read_text()
    assert not [name for name in plugin_v1.__all__ if not re.search(rf"`[^`]*\b{name}\b", guide)]


def documents():
    return [
        *ROOT.glob("*.md"),
        *(
            path
            for part in ("config", "deploy", "docs", "monitor")
            for path in (ROOT / part).rglob("*.md")
        ),
    ]


def test_the_page_names_every_setting_source_and_receiver():
    schema = json.loads((ROOT / "config/rankwatch.schema.json").read_text())
    objects = [schema, *schema["$defs"].values()]
    references = {
        "configuration": {name for each in objects for name in each.get("properties", ())},
        "../how-to/sources": set(SOURCES),
        "../explanation/delivery": set(RECEIVERS),
    }
    for page, names in references.items():
        text = (ROOT / f"docs/reference/{page}.md").read_text()
        rows = "\n".join(re.findall(r"(?m)^\|.*$", text))
        named = set(re.findall(r"[`\[](\w+)[`\]]", rows))
        assert not names - named, page


def test_every_link_between_documents_leads_somewhere():
    for path in documents():
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            target, _, anchor = link.partition("#")
            if ":" not in target:
                there = (path.parent / target).resolve() if target else path
                assert there.exists(), (path, link)
                assert not anchor or anchor in anchors(there), (path, link)


def anchors(path):
    headings = re.findall(r"(?m)^#+ (.+)$", path.read_text())
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
