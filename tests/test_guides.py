"""Commands, outputs and settings in the documentation are those of the program."""

import re
import shlex

import pytest
import yaml
from typer import Context

import guides
from commands import find_command
from monitor.service.gate.question import make_question
from monitor.settings.configuration import Settings
from monitor.settings.loader import parse_settings
from monitor.settings.translation import to_comparison

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
OTHER_FILES = {"# prometheus.yml", "# kustomization.yaml", "# web.yaml", "groups:"}
WEB = (guides.DOCS.parent / "config/web.yaml").read_text()
FILES = {"key": "k" * 32, "yaml": WEB, "url": "https://hooks.example.com/x"}
"""What the files are that the guides name, by the end of their names."""
SECRET = re.compile(r"/run/secrets/([\w.-]+)")
TOP = {field.alias or name for name, field in Settings.model_fields.items()}
USUAL = yaml.safe_load("""
name: home-feed
every: 15m
baseline: {http: {url: "http://recs-v1.internal/{user}"}}
candidate: {http: {url: "http://recs-v2.internal/{user}"}}
users: {file: {path: users.csv, user: user_id}}
rules: default
""")
PAGES = [*guides.DOCS.rglob("*.md"), guides.DOCS.parent / "README.md"]
COMMAND = re.compile(r"(?:\$ )?(?:\w+=\S+ )*(?:\S*/)?rankwatch (.*)")


def played_guides():
    """The guides with commands. Those that run comparisons take seconds: they are of the second ring."""
    for path in guides.guides():
        kinds = {block.kind for block in guides.blocks(path)}
        if kinds & {"console", "sql"}:
            is_slow = path.stem != "two-files"
            marks = [pytest.mark.slow] if is_slow else []
            yield pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", list(played_guides()))
def test_each_command_of_a_guide_prints_what_is_shown(path):
    assert guides.played(path)[0] == path.read_text(), "run: make generated"


def test_a_block_that_is_not_run_says_why():
    unrun = [
        block for path in guides.guides() for block in guides.blocks(path) if block.kind == "sh"
    ]
    assert not {block.where for block in unrun if not block.why_not_run}
    assert {block.why_not_run for block in unrun} <= NOT_RUN


def test_each_setting_of_a_guide_is_valid(tmp_path):
    for path in guides.guides():
        for block in guides.blocks(path):
            first = block.text.partition("\n")[0]
            if block.kind == "yaml" and first not in OTHER_FILES and not block.why_not_run:
                load(block, tmp_path)


def test_the_gate_answers_on_the_configuration_that_the_readme_shows(tmp_path):
    blocks = guides.blocks(guides.DOCS.parent / "README.md")
    loaded = load(next(each for each in blocks if each.kind == "yaml"), tmp_path)
    named = {each.name: to_comparison(each) for each in loaded.comparisons}
    question = make_question(named, "home-feed", margin=0.1, alpha=0.01)
    assert (question.is_census, question.fixed_users) == (True, 2000)


def load(block, folder):
    """Load the settings of a block, with all else that a configuration needs."""
    for name in ("users.key", "web.yaml", *SECRET.findall(block.text)):
        (folder / name).write_text(FILES.get(name.rpartition(".")[2], FILES["url"]))
    part = yaml.safe_load(block.text.replace("/run/secrets", str(folder)))
    top = {key: value for key, value in part.items() if key in TOP}
    inner = {key: value for key, value in part.items() if key not in TOP}
    return parse_settings(
        yaml.safe_dump({"comparisons": [USUAL | inner]} | top),
        name=block.where,
        base_dir=folder,
        environ=dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "x"),
    )


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
    command, words = find_command(
        [word for word in shlex.split(arguments) if word not in {"…", "..."}]
    )
    inner = getattr(command, "commands", {})
    if inner and "ls" not in inner:
        assert not words or words[0] == "COMMAND" or words[0].startswith("--"), arguments
    command = inner.get("ls", command)
    command.make_parser(Context(command)).parse_args(words)


def test_each_command_in_the_documentation_is_one_that_rankwatch_has():
    for page in PAGES:
        for where, arguments in commands(page):
            try:
                parse(arguments)
            except Exception as error:
                error.add_note(f"{where}: rankwatch {arguments}")
                raise
