"""Each kind of fault has all of its parts: the recipe is in CONTRIBUTING.md."""

import re

from monitor.model.explanation import FAULT_FACTS, FaultKind, Finding
from monitor.texts.actions import FIRST_STEPS
from places import ROOT
from texts.examples import EXAMPLES

CAUSES = ROOT / "docs" / "explanation" / "causes.md"


def find_missing_parts(kind):
    examples = [example.args[:1] for example in EXAMPLES["What happened to lists"]]
    has_part = {
        "facts": kind in FAULT_FACTS,
        "first step": kind in FIRST_STEPS,
        "example": any(isinstance(each, Finding) and each.kind == kind for (each,) in examples),
        "documentation": f"\n| `{kind}` |" in CAUSES.read_text(),
    }
    return {part for part, is_there in has_part.items() if not is_there}


def test_each_kind_of_fault_has_facts_a_text_a_first_step_and_a_description():
    assert {kind: find_missing_parts(kind) for kind in FaultKind if find_missing_parts(kind)} == {}
    documented = re.findall(r"^\| `(\w+)` \|", CAUSES.read_text(), re.MULTILINE)
    assert set(documented) == set(FaultKind)


def test_a_planted_kind_lacks_all_parts():
    assert find_missing_parts("planted") == {"facts", "first step", "example", "documentation"}
