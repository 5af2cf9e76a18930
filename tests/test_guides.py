"""Commands, outputs and settings in the documentation are those of the program."""

import re
import shlex

import pytest
import yaml
from typer import Context
from typer.main import get_command

import guides
from monitor.cli.main import app
from monitor.settings.configuration import Settings
from monitor.settings.loader import parse_settings

NOT_RUN = {
    "downloads packages",
    "needs systemd",
    "needs Docker",
    "needs Kubernetes",
    "needs PostgreSQL",
    "needs a daemon",
    "needs the plugin",
}
"""Why blocks of the guides are not run."""
OTHER_FILES = {"# prometheus.yml", "# kustomization.yaml", "# web.yaml", "# alertmanager.yml"}
TOP = {field.alias or name for name, field in Settings.model_fields.items()}
USUAL = {
    "name": "home-feed",
    "every": "15m",
    "baseline": {"http": {"url": "http://recs-v1.internal/{user}"}},
    "candidate": {"http": {"url": "http://recs-v2.internal/{user}"}},
    "users": {"file": {"path": "users.csv", "user": "user_id"}},
    "rules": "default",
}
PAGES = [*guides.DOCS.rglob("*.md"), guides.DOCS.parent / "README.md"]
COMMAND = re.compile(r"(?:\$ )?(?:\w+=\S+ )*(?:\S*/)?rankwatch (.*)")


@pytest.mark.parametrize("path", guides.guides(), ids=lambda path: path.stem)
def test_each_command_of_a_guide_prints_what_is_shown(path):
    assert guides.played(path)[0] == path.read_text(), "run: make generated"


def test_a_block_that_is_not_run_says_why():
    unrun = [block for path in guides.guides() for block in guides.blocks(path) if block.kind == "sh"]
    assert {block.where for block in unrun if not block.why_not_run} == set()
    assert {block.why_not_run for block in unrun} <= NOT_RUN


def test_each_setting_of_a_guide_is_valid(tmp_path):
    (tmp_path / "users.key").write_text("k" * 64)
    shown = [block for path in guides.guides() for block in guides.blocks(path)]
    for block in shown:
        first = block.text.partition("\n")[0]
        if block.kind == "yaml" and first not in OTHER_FILES and not block.why_not_run:
            parse_settings(
                yaml.safe_dump(complete(yaml.safe_load(block.text))),
                name=block.where,
                base_dir=tmp_path,
                environ=dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "x"),
            )


def complete(part: dict) -> dict:
    """The part of a configuration with what it needs to be loaded."""
    top = {key: value for key, value in part.items() if key in TOP}
    inner = {key: value for key, value in part.items() if key not in TOP}
    return {"comparisons": [USUAL | inner]} | top


def commands(path):
    """Where each command of rankwatch is in a page, and its arguments."""
    for block in guides.blocks(path):
        if block.kind in {"sh", "console"}:
            for line in block.text.replace("\\\n", " ").splitlines():
                for part in re.split(r"; |\||&&| #", line):
                    found = COMMAND.match(part.strip())
                    if found:
                        yield block.where, found[1]
    for found in re.finditer(r"`rankwatch ([^`\n]+)`", path.read_text()):
        yield path, found[1]


def parse(arguments):
    """Parse the arguments by the command's own parser. An unknown command or option is an error."""
    command = get_command(app)
    words = [word for word in shlex.split(arguments) if word not in {"…", "..."}]
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        command = command.get_command(None, words.pop(0))
        assert command is not None, arguments
    command.make_parser(Context(command)).parse_args(words)


def test_each_command_in_the_documentation_is_one_that_rankwatch_has():
    for page in PAGES:
        for where, arguments in commands(page):
            try:
                parse(arguments)
            except Exception as error:
                error.add_note(f"{where}: rankwatch {arguments}")
                raise
