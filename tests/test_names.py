"""One name for one idea: no two modules define a class, a function or a constant of one name."""

import re
from collections import defaultdict
from pathlib import Path

import monitor

PER_MODULE = {"log", "__all__"}
"""Names with the same meaning in each module: its logger, and its public names."""


DEFINITION = re.compile(
    r"^(?:(?:(?:async )?def|class) (\w+)|(\w+(?:, \w+)*)(?:: .*)? = )", re.MULTILINE
)
"""The beginning of a line that defines names. To parse all modules takes ten times as long."""


def find_definitions(source):
    """The names of the classes, functions and constants of a module."""
    for name, assigned in DEFINITION.findall(source):
        yield from (name or assigned).split(", ")


def find_twins(sources):
    """The modules of each public name that another module defines too, perhaps as a private one.

    Private functions may have the name of a public one: the public one often calls them.
    """
    modules = defaultdict(set)
    public_names = set()
    for module, source in sources.items():
        for name in set(find_definitions(source)) - PER_MODULE:
            is_constant = name.strip("_").isupper()
            shared_name = name.removeprefix("_") if is_constant else name
            modules[shared_name].add(module)
            if not name.startswith("_"):
                public_names.add(name)
    return {
        name: sorted(owners)
        for name, owners in modules.items()
        if name in public_names and len(owners) > 1
    }


def test_no_two_modules_define_a_class_function_or_constant_of_one_name():
    root = Path(monitor.__file__).parent
    paths = sorted(root.rglob("*.py"))
    assert not find_twins({path.relative_to(root): path.read_text() for path in paths})


def test_planted_twins_are_found():
    model = "class Part: pass\nMOST: int = 3\nlog = 1\n_T = 1"
    daemon = "class Part: pass\n_MOST = 4\nlog = 1\n_T = 2"
    both = ["daemon", "model"]
    assert find_twins({"model": model, "daemon": daemon}) == {"Part": both, "MOST": both}
