"""No code searches, cuts or compares a sentence of rankwatch: values decide, see `monitor.texts`."""

import ast
import importlib
import re
from enum import Enum

from places import ROOT

TEXTS = re.compile(
    r"(^|_)(cause|clause|explanation|headline|lines?|message|note|reason|sentence|text|title)(_|$)"
)
"""Names of variables, attributes and functions that hold a text."""
CUTS = re.compile(
    r"count|endswith|r?find|r?index|r?partition|remove(pre|suf)fix|replace|r?split|splitlines|startswith"
)
SEARCHES = re.compile("find(all|iter)|(full)?match|search|split|subn?")
COMPARES = re.compile("contains|i?like|is_(not_)?distinct_from")
"""Methods of columns in queries."""

ALLOWED = """
# A person wrote the text: in the configuration, a command or a query.
alerts.notification_policy
measures.metrics.metric
boundary.options
settings.addresses
settings.schedule
settings.value_types
settings.yaml_document
# The text is an id or a value in the data of users.
measures.pairing.id_mismatches
measures.pairing.ids
measures.reading.dialects
measures.reading.ids
measures.reading.lists
measures.reading.numbers
sources.file.diagnosis
storage.schema_version
# The text is an error or an answer of another program.
cli.health_probe
boundary.foreign_errors
boundary.plugins
receivers.smtp
# Only characters are escaped.
receivers.apprise
boundary.redaction
storage.column_types
""".splitlines()
"""Modules that read texts which rankwatch did not write, and why they may."""


def find_decisions(tree, constants):
    """The lines that decide by a text. ``constants`` are the values of the module's names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method, owner = node.func.attr, node.func.value
            is_cut = CUTS.fullmatch(method) or COMPARES.fullmatch(method)
            is_search = SEARCHES.fullmatch(method) and any(map(_is_text, node.args))
            if (is_cut and _is_text(owner)) or is_search:
                yield node.lineno
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
                texts = [side for side in (left, right) if _is_text(side)]
                fixed = [side for side in (left, right) if _is_fixed(side, constants)]
                if not isinstance(operator, ast.In | ast.NotIn | ast.Eq | ast.NotEq):
                    continue
                is_part = isinstance(operator, ast.In | ast.NotIn) and _is_text(right)
                is_value = isinstance(right, ast.Name) and right.id in constants and not fixed
                if (is_part and not is_value) or (texts and fixed):
                    yield node.lineno


def _is_text(node):
    """Whether the expression has the name of a text."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return TEXTS.search(name) is not None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return TEXTS.search(name) is not None
        case ast.Call(func=part) | ast.Subscript(value=part) | ast.NamedExpr(target=part):
            return _is_text(part)
        case ast.BoolOp(values=parts):
            return any(map(_is_text, parts))
    return False


def _is_fixed(node, constants):
    """Whether the expression is a text in the code, or a collection of such texts."""
    match node:
        case ast.Constant(value=value):
            return _holds_text(value)
        case ast.JoinedStr():
            return True
        case ast.Name(id=name):
            return _holds_text(constants.get(name))
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(_is_fixed(part, constants) for part in parts)
        case ast.Call(args=parts):
            return any(_is_fixed(part, constants) for part in parts)
    return False


def _holds_text(value):
    """Whether it is a text, a collection of texts, or an enumeration whose members are sentences."""
    if isinstance(value, type) and issubclass(value, Enum):
        return any(" " in str(member.value) for member in value)
    if isinstance(value, tuple | list | set | frozenset | dict):
        return any(map(_holds_text, value))
    return type(value) is str and value != ""


def test_no_module_decides_by_a_text():
    found = []
    for path in sorted((ROOT / "monitor").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if module.removeprefix("monitor.") in ALLOWED:
            continue
        tree = ast.parse(path.read_text())
        if any(find_decisions(tree, {})):
            constants = vars(importlib.import_module(module))
            lines = find_decisions(tree, constants)
            found += [f"{module}:{line}" for line in lines]
    assert not found


PLANTED = """
if run_reason.startswith(BOTH_FAILED): pass
causes = reason.rpartition(f"{lost}: ")
first = (explanation.sentence or "").partition(". ")[0]
sentences = [each for each in reason.split("; ")]
_LOST.findall(reason)
re.search("[0-9]+ users", start.explanation[:2000])
if NEW_NORMAL in self.reason: pass
if "learning" in describe(state).reason: pass
if change.is_end and change.reason in tuple(Removed): pass
if reason == "rule removed from the configuration": pass
if reason != BOTH_FAILED or reason in REASONS: pass
query.where(deliveries.c.reason.is_distinct_from(BOTH_FAILED))
if row["note"] == f"until {slot}": pass
text.replace("the run's deadline", "its deadline")
"""
CONSTANTS = {
    "BOTH_FAILED": "both arms failed",
    "REASONS": ("it failed", "it is late"),
    "Removed": Enum("Removed", {"RULE": "rule removed from the configuration"}),
}


def test_a_planted_decision_is_found():
    for line in PLANTED.strip().splitlines():
        assert list(find_decisions(ast.parse(line), CONSTANTS))


def test_what_compares_values_or_whole_texts_of_two_things_is_none():
    for line in [
        "if reason is None or reason == other.reason: pass",
        "if reason.kind is RunReasonKind.LATE: pass",
        "if reason in KINDS or reason == HAS_LIST: pass",
        'if message["type"] == "http.response.start": pass',
    ]:
        constants = {"KINDS": frozenset([1, 2]), "HAS_LIST": 0}
        assert not list(find_decisions(ast.parse(line), constants))
