"""Documentation that lags behind the code fails here."""

from pathlib import Path

import pytest
import typer
from typer.main import get_command

from monitor.cli.main import app
from monitor.export import reference as series_reference
from monitor.settings.reference import reference as settings_reference

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_readme_holds_every_series_as_the_code_tells_it() -> None:
    begin, end = README.index("compared by a test -->"), README.index("<!-- end of series -->")
    assert README[begin:end].partition("\n")[2].strip() == series_reference().strip()


def test_the_configuration_reference_is_what_the_options_say() -> None:
    assert settings_reference().strip() in (ROOT / "config" / "README.md").read_text()


@pytest.mark.parametrize("name", sorted(get_command(app).commands))  # type: ignore[attr-defined] # a click group
def test_readme_names_every_command(name: str) -> None:
    assert f"`rankwatch {name}" in README


def test_every_command_has_help() -> None:
    group = get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    assert all(command.help for command in group.commands.values())


def test_readme_names_every_exit_code_of_the_errors() -> None:
    for code in ("0 done", "1 internal failure", "2 wrong usage", "3 a source or run failed", "4 database", "5 delivery"):
        assert code in README
