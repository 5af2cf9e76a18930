"""Commands, outputs and settings in the guides are those of the program."""

import pytest

import guides


@pytest.mark.parametrize("path", guides.guides(), ids=lambda path: path.stem)
def test_each_command_of_a_guide_prints_what_is_shown(path):
    assert guides.played(path)[0] == path.read_text(), "run: make generated"
