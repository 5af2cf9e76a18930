"""What people and editors read about the configuration: the example, the schema, the reference."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from monitor.receivers import RECEIVERS
from monitor.settings.configuration import Settings
from monitor.settings.loader import example_text, parse_settings
from monitor.sources import SOURCES
from places import ROOT
from settings.minimal import MINIMAL, uncommented
from settings_reference import models_in

BAD = Path(__file__).parent / "bad"
REJECTED = """
unknown_key_at_top unknown_key_in_rule unknown_key_in_source name_missing comparisons_empty every_and_cron
neither_every_nor_cron every_without_unit every_in_words k_zero k_as_word share_above_one
source_of_no_kind source_of_two_kinds rule_below_and_above rule_without_threshold
rule_severity_unknown rule_for_zero rule_on_nothing coverage_and_metric coverage_below learned_and_below
receiver_of_unknown_kind secret_and_its_file log_level_warn sample_of_words
"""
ENVIRON = {"RECS_DB_PASSWORD": "x", "CACHE_PASSWORD": "x", "NTFY_TOPIC": "x"}


@cache
def validator():
    schema = json.loads((ROOT / "config/rankwatch.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def base(tmp_path):
    files = dict.fromkeys(
        ("recs.token", "hook.secret", "smtp.password", "users.key", "pagerduty.key"),
        "0123456789abcdef" * 2,
    )
    files |= dict.fromkeys(("slack.url", "ping.url"), "https://hooks.example.com/services/T0/B0/x")
    files["web.yaml"] = (ROOT / "config" / "web.yaml").read_text()
    for name, content in files.items():
        (tmp_path / name).write_text(f"{content}\n")
    return tmp_path


def test_the_example_loads_with_all_its_options_uncommented(base):
    loaded = parse_settings(
        uncommented(example_text()), name="rankwatch.yaml", base_dir=base, environ=ENVIRON
    )
    names = "home-feed mail cached cached.b everybody checkout-test"
    assert " ".join(each.name for each in loaded.comparisons) == names
    assert len(loaded.receivers) == 6


def test_each_optional_line_of_the_example_can_be_uncommented_by_itself_or_with_its_block(base):
    lines = example_text().splitlines()
    optional = [n for n, line in enumerate(lines) if re.match(r"\s*#[^\s#]", line)]
    blocks = [n for n in optional if n - 1 not in optional]
    for first in blocks:
        last = next(n for n in range(first, len(lines) + 1) if n not in optional)
        text = "\n".join(
            re.sub(r"#", "", line, count=1) if first <= n < last else line
            for n, line in enumerate(lines)
        )
        parse_settings(text, name="rankwatch.yaml", base_dir=base, environ=ENVIRON)
    assert len(blocks) >= 7


def models():
    """The options of every part of the file."""
    found: list[Any] = [Settings]
    for model in found:
        for field in model.model_fields.values():
            found += [inner for inner in models_in(field.annotation) if inner not in found]
    return found


def lacking(keys, shown):
    """The keys that are not shown. Of a secret either the key or that of its file is shown."""
    return {key for key in keys if not shown & {key, f"{key}_file", key.removesuffix("_file")}}


def test_the_example_shows_every_setting_and_of_a_secret_it_or_its_file():
    shown = set(re.findall(r"(?m)[#\s{-](\w+):", example_text()))
    wanted = {key for model in models() for key in model.file_keys()}
    assert not lacking(wanted, shown)


SHARED = {
    "ca_file",
    "format",
    "item_ids",
    "max_unreadable",
    "no_item",
    "repeat_every",
    "scores",
    "served",
}
"""Keys that the example shows once for all kinds."""
KINDS: Any = {kind: options for kind, (options, _) in RECEIVERS.items()}
KINDS |= {kind: source.lists.options for kind, source in SOURCES.items()}


def test_the_example_shows_each_key_of_a_source_or_receiver_below_its_kind():
    for kind in KINDS:
        below = rf"(?m)^( *)(?:- )?{kind}:(.*\n(?:\1 +.*\n)*)"
        entries = "".join(
            entry for _, entry in re.findall(below, f"{uncommented(example_text())}\n")
        )
        shown = set(re.findall(r"\w+(?=:)", entries)) | SHARED
        keys = set(KINDS[kind].file_keys()) - set(KINDS[kind].__base__.file_keys())
        assert not lacking(keys, shown), kind


def test_the_example_is_the_checkouts_file():
    assert example_text() == (ROOT / "config" / "rankwatch.yaml").read_text()


def test_the_schema_accepts_the_example_and_variables_in_place_of_numbers_and_choices():
    text = MINIMAL.replace("every: 15m", "every: ${EVERY}")
    text += '    k: "${K:-10}"\n    keep_scores: ${KEEP}\nlog: {level: "${LEVEL}"}\n'
    for each in (example_text(), uncommented(example_text()), text):
        validator().validate(yaml.safe_load(each))


def test_the_schema_rejects_what_editors_can_see():
    for name in REJECTED.split():
        bad = yaml.safe_load((BAD / f"{name}.yaml").read_text())
        assert not validator().is_valid(bad), name


def test_every_setting_in_the_schema_is_described():
    schema: Any = validator().schema
    for name, model in {"": schema, **schema["$defs"]}.items():
        for key, setting in model.get("properties", {}).items():
            referred = schema["$defs"].get(setting.get("$ref", "").rpartition("/")[2], {})
            assert {**referred, **setting}.get("description"), f"{name}.{key}"
