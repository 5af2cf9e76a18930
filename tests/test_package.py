"""What users of the Python package see."""

import subprocess
import sys
from pathlib import Path

import monitor


def test_dir_shows_what_users_call_and_nothing_else():
    assert dir(monitor) == sorted(monitor.__all__)
    assert all(hasattr(monitor, name) for name in monitor.__all__)
    assert not hasattr(monitor, "nothing_of_the_kind")


def test_importing_it_loads_no_array_library():
    code = "import sys, monitor; print({'numpy', 'pandas'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_type_checkers_are_promised_types():
    assert Path(monitor.__file__).with_name("py.typed").exists()
