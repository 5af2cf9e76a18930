import pkgutil
from dataclasses import fields
from importlib import import_module

from monitor import texts
from monitor.model.runs import RunFacts
from texts.examples import EXAMPLES, RUN


def test_each_function_that_writes_a_text_has_an_example():
    """`test_documentation` compares golden.txt with what they write."""
    writers = set()
    for module in pkgutil.iter_modules(texts.__path__, f"{texts.__name__}."):
        functions = vars(import_module(module.name)).values()
        writers |= {each for each in functions if getattr(each, "__name__", "")[:6] == "write_"}
    assert writers <= {example.func for part in EXAMPLES.values() for example in part}


def test_the_example_of_a_run_has_every_fact_that_a_note_shows():
    unset = [each.name for each in fields(RunFacts) if getattr(RUN, each.name) == each.default]
    assert unset == ["reasons", "catalogue_size", "input_hash", "unpaired"]  # without a note
