"""The documentation is written in plain English: short sentences, plain verbs, one word for one idea."""

import re

from places import ROOT
from tables import cells

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
LONGEST = 25
"""Words of a sentence."""
EXCLUDED = dict(
    cells("""
tells|told|telling|tell(?! (?:the|your|somebody))  say, report, show or name
stands?|stood|standing|lies?|lying                 is
owe[sd]?|owing                                     has to deliver
lets? go|letting go                                delete
teach(?:es)?|taught                                explain
believes?|believed                                 assume
anew                                               again
beside                                             next to
whoever                                            name the person
thereof|therein|hereby                             name the noun
by itself                                          alone or automatically
is had                                             another verb
(?:a|the|each|every|one|leading) measures?         metric
alarms?                                            alert
dead-man(?:'s)?                                    dead man's
config files?                                      configuration
time ?slots?                                       slot
data ?points?                                      run or score
""")
)
"""Words that are vague or have a synonym here, as patterns, and what to write."""
WORDS = re.compile("|".join(rf"\b({words})\b" for words in EXCLUDED), re.IGNORECASE)
NO_PROSE = re.compile(r"\s*(?:[|#<!:]|```|$)")


def prose(page):
    """The numbered lines outside of code, without inline code and addresses."""
    is_code = False
    for number, line in enumerate(page.splitlines(), start=1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        if not is_code and not is_fence:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)|<http\S*>", "x", line)


def excluded_words(page):
    """The line of each excluded word, and what to write instead."""
    for number, line in prose(page):
        for found in WORDS.finditer(line):
            instead = list(EXCLUDED.values())[found.lastindex - 1]  # type: ignore[operator]
            yield number, f"'{found[0]}': write {instead}"


def sentences(page):
    """Each sentence of more than three words, with the line where its paragraph begins."""
    paragraph, begin = "", 1
    for number, line in [*prose(page), (0, "")]:
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+", line)
        if item or NO_PROSE.match(line):
            for sentence in re.split(r"(?<=[.!?:])[*_]*\s+(?=[A-Z*`x])", paragraph):
                if len(sentence.split()) > 3:
                    yield begin, sentence
            paragraph = ""
        if not NO_PROSE.match(line):
            begin = begin if paragraph else number
            paragraph += f" {line[item.end() if item else 0 :]}"


def places(find):
    found = []
    for path in PAGES:
        found += [
            f"{path.relative_to(ROOT)}:{line}: {text}" for line, text in find(path.read_text())
        ]
    return found


def test_no_page_has_a_word_that_the_style_excludes():
    assert "\n".join(places(excluded_words)) == ""


def test_one_sentence_in_ten_at_most_is_long():
    everything = places(sentences)
    long = [each for each in everything if len(each.split(": ", 1)[1].split()) > LONGEST]
    assert len(long) <= 0.1 * len(everything), "\n".join(long)


def test_the_check_finds_planted_faults():
    page = f"# Told\n\nIt is told here, as `told` is not.\n```\ntold\n```\n\n- {'one ' * 26}end.\n"
    assert list(excluded_words(page)) == [
        (1, "'Told': write say, report, show or name"),
        (3, "'told': write say, report, show or name"),
    ]
    assert [(line, len(text.split())) for line, text in sentences(page)] == [(3, 8), (8, 27)]
