"""What users of the Python package see."""

import re
import tomllib
from importlib.metadata import distributions

from packaging.specifiers import SpecifierSet

import monitor
from places import ROOT


def test_dir_shows_what_users_call_and_nothing_else():
    assert dir(monitor) == sorted(monitor.__all__)
    assert all(hasattr(monitor, name) for name in monitor.__all__)
    assert not hasattr(monitor, "nothing_of_the_kind")


def test_type_checkers_are_promised_types():
    assert (ROOT / "monitor/py.typed").exists()


def test_drivers_of_the_extras_are_pinned_and_the_core_never_imports_them():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    of_tools = {"test", "lint", "docs", "bench", "fast", "pictures"}
    drivers = {
        re.split(r"[^\w-]", requirement)[0]
        for extra in extras.keys() - of_tools
        for requirement in extras[extra]
    }
    pins = (ROOT / ".ci/constraints.txt").read_text()
    unused = {"adlfs", "gcsfs"}  # no test has their servers
    assert not {name for name in drivers - unused if f"\n{name}==" not in pins}
    (core,) = (
        contract["forbidden_modules"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["name"].startswith("the core knows no vendor")
    )
    assert {name.partition("-")[0] for name in drivers} <= set(core)


def test_what_is_pinned_runs_on_the_first_python_3_11():
    for packages in ROOT.glob(".venv/*/lib/python3.11/site-packages"):
        for package in distributions(path=[str(packages)]):
            assert "3.11.0" in SpecifierSet(*package.metadata.get_all("Requires-Python", [])), (
                package.name
            )
