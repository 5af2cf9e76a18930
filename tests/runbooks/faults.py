"""The fault behind each alert of the default rules, and of conditions."""

from functools import partial
from typing import Any

from places import read_yaml
from runbooks.world import TEST, Fault
from unpaired import world as unpaired


def _replace(first, last, items):
    """Replaces the items from one place to another."""
    return [*items[:first], *(f"new-{item}" for item in items[first:last]), *items[last:]]


def _swap(first, second, items):
    items = list(items)
    items[first], items[second] = items[second], items[first]
    return items


_CHANGES: Any = {
    "replace": _replace,
    "swap": _swap,
    "no_list": lambda _: None,
    "empty": lambda _: [],
    "short": lambda items: items[:4],
    "duplicated": lambda items: [*items[:-1], items[0]],
    "unreadable": lambda _: [["no", "item"]],
    "promoted": lambda items: ["item-7", *items[:-1]],
    "dropped": lambda items: [*items[1:], f"new-{items[0]}"],
    "popular": lambda _: [f"item-{number}" for number in range(10)],
}


def _read(row):
    if "change" in row:
        name, *places = row["change"].split()
        row["change"] = partial(_CHANGES[name], *map(int, places))
    if "log" in row:
        row["log"] = {when: getattr(unpaired, name) for when, name in row["log"].items()}
    return Fault(**row)


_MOST = ~(TEST.is_candidate & TEST.draw(0.4))
FAULTS = (
    *map(_read, read_yaml("tests/runbooks/faults.yaml")),
    Fault(alert="SplitOff", log={"served": _MOST, "begins": 1}, days=2),
    Fault(alert="FewerUsers", log={"served": _MOST}),
    Fault(alert="BaselineFewerUsers", log={"served": TEST.is_candidate | TEST.draw(0.4)}),
)
