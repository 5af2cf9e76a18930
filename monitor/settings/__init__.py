"""The YAML language: one file becomes typed settings, or a list of everything that is wrong with it.

Each name is loaded when it is first used, so that commands which only read the database load no source and no receiver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monitor.settings.comparison_hash import config_hash
    from monitor.settings.comparison_options import ComparisonOptions
    from monitor.settings.configuration import LogOptions, RetentionOptions, Settings
    from monitor.settings.documentation import json_schema, settings_reference
    from monitor.settings.excerpt import DEFAULT_LISTEN, DatabaseSettings, listen_address, load_database_settings, split_address
    from monitor.settings.loader import (
        config_path,
        example_text,
        load_settings,
        load_with_rules,
        parse_settings,
    )
    from monitor.settings.rule_options import RuleOptions
    from monitor.settings.schedule import Cron, Every, Schedule
    from monitor.settings.translation import policy_of, to_comparison, to_schedule

_HOMES = {
    "comparison_options": ("ComparisonOptions",),
    "configuration": ("LogOptions", "RetentionOptions", "Settings"),
    "excerpt": ("DEFAULT_LISTEN", "DatabaseSettings", "listen_address", "load_database_settings", "split_address"),
    "documentation": ("json_schema", "settings_reference"),
    "loader": ("config_path", "example_text", "load_settings", "load_with_rules", "parse_settings"),
    "rule_options": ("RuleOptions",),
    "schedule": ("Cron", "Every", "Schedule"),
    "comparison_hash": ("config_hash",),
    "translation": ("policy_of", "to_comparison", "to_schedule"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
