"""The registry of sources: each kind declares everything."""

import pkgutil
import tomllib
from dataclasses import fields
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from monitor import sources
from monitor.boundary.options import NOT_IN_HASH
from monitor.sources import (
    SOURCES,
    ItemTitlesOptions,
    ItemWeightsOptions,
    RelevanceOptions,
    SourceOptions,
    UsersOptions,
)
from monitor.sources.kinds import Reader
from places import ROOT, read_yaml
from servers import lists

ROLES: Any = {
    "lists": SourceOptions,
    "users": UsersOptions,
    "item_weights": ItemWeightsOptions,
    "item_titles": ItemTitlesOptions,
    "relevance": RelevanceOptions,
}
READERS = (getattr(kind, each.name) for kind in SOURCES.values() for each in fields(kind))
OPTIONS = dict.fromkeys(reader.options for reader in READERS if isinstance(reader, Reader))
HASHED = yaml.safe_load("""
HttpSourceOptions: answers body endpoint error headers item_ids items method no_item scores token url user
HttpUsersOptions: headers token url user user_ids users
FileSourceOptions: format in_order item item_ids items no_item path rank scores served user user_ids
FileUsersOptions: format path served user user_ids
FileItemWeightsOptions: format item path weight
FileItemTitlesOptions: format item path title
FileRelevanceOptions: format grade grades item items path user user_ids
RedisSourceOptions: field item_ids items key no_item scores type url
RedisUsersOptions: key url
SparkSourceOptions: format item item_ids items no_item path rank scores table user user_ids
SparkUsersOptions: format path table user user_ids
SqlSourceOptions: item item_ids items no_item query rank scores served table url user user_ids
SqlUsersOptions: query served table url user user_ids
SqlItemWeightsOptions: item query table url weight
SqlItemTitlesOptions: item query table title url
SqlRelevanceOptions: grade grades item items query table url user user_ids
""")
"""The settings that are in `config_hash`. A new setting must be added here if it affects which lists are read."""


def test_every_folder_declares_a_kind():
    """A kind without a line in SOURCES fails here."""
    assert {
        each.name for each in pkgutil.iter_modules(sources.__path__) if each.ispkg
    } == SOURCES.keys()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = {
        contract["name"]: contract.get("modules")
        for contract in project["tool"]["importlinter"]["contracts"]
    }
    assert sorted(modules["one source never imports another"]) == [
        f"monitor.sources.{kind}" for kind in sorted(SOURCES)
    ]


@pytest.mark.parametrize("kind", [kind for kind, source in SOURCES.items() if source.is_pulled])
def test_the_contract_is_kept_by_every_kind(kind):
    assert any(name.split()[0] == kind for name in lists.SOURCES), (
        "add an entry to SOURCES in tests/servers/lists.py"
    )


BAD = read_yaml("tests/sources/bad_options.yaml")


@pytest.mark.parametrize(
    "kind, options, expected", [(kind, *each) for kind, refused in BAD.items() for each in refused]
)
def test_bad_options_are_reported_without_their_secrets(kind, options, expected):
    model = UsersOptions if kind == "users" else SOURCES[kind].lists.options
    with pytest.raises(ValidationError, match=expected) as caught:
        model.model_validate(options)
    assert "canary" not in str(caught.value)


def test_every_path_may_have_the_slot_as_its_only_placeholder():
    for options in OPTIONS:
        for path in (
            ("{user}.x", "{slot.x", "{slots:%Y}.x") if "path" in options.model_fields else ()
        ):
            with pytest.raises(ValidationError, match="placeholder"):
                options.model_validate({"path": path})


@pytest.mark.parametrize("options", OPTIONS)
def test_every_setting_of_a_source_says_whether_it_enters_the_hash(options):
    entering = {
        name for name, field in options.model_fields.items() if NOT_IN_HASH not in field.metadata
    }
    assert " ".join(sorted(entering)) == HASHED.get(options.__name__), (
        f"{options.__name__} stands in HASHED (tests/sources/test_registry.py) with the settings "
        "that decide what is read; mark the others NOT_IN_HASH"
    )
