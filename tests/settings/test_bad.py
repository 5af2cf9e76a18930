"""Each file in bad/ breaks the rule it is named for; its first lines say exactly what must be reported, and on which line."""

import re
from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.settings.loader import load_settings

BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))
EXPECT = "# expect "


def expected(path: Path) -> list[str]:
    wanted = [line.removeprefix(EXPECT) for line in path.read_text().splitlines() if line.startswith(EXPECT)]
    return [f"{path}:{line}" if re.match(r"\d+: ", line) else f"{path}: {line}" for line in wanted]


def reported(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {})
    return str(caught.value).splitlines()


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_configuration_is_reported_exactly_so_and_its_secrets_never_are(path: Path) -> None:
    assert expected(path), "the file must say what it expects"
    lines = reported(path)
    assert lines == expected(path)
    assert "hunter2" not in "".join(lines)


def test_there_are_as_many_bad_configurations_as_rules() -> None:
    assert len(BAD) > 110
