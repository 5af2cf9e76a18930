"""One name for one idea: no two modules define a class or a public function of one name."""

import ast
from collections import defaultdict
from pathlib import Path

import monitor


def find_definitions(tree):
    """The names of the public classes and functions of a module."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds) if node.name[0] != "_"}


def find_twins(trees):
    """The modules of each name that several modules define."""
    modules = defaultdict(list)
    for module, tree in trees.items():
        for name in find_definitions(tree):
            modules[name].append(module)
    return {name: owners for name, owners in modules.items() if len(owners) > 1}


def test_no_two_modules_define_a_class_or_function_of_one_name():
    root = Path(monitor.__file__).parent
    paths = sorted(root.rglob("*.py"))
    twins = find_twins({path.relative_to(root): ast.parse(path.read_text()) for path in paths})
    assert not twins


def test_a_planted_twin_is_found():
    twin = ast.parse("class Part: pass")
    assert find_twins({"model": twin, "daemon": twin}) == {"Part": ["model", "daemon"]}
