"""The YAML language: one file becomes typed settings, or a list of everything that is wrong with it."""

from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import LogOptions, RetentionOptions, Settings
from monitor.settings.documentation import json_schema, settings_reference
from monitor.settings.loader import config_path, example_text, listen_address, load_settings, load_with_rules, parse_settings
from monitor.settings.rule_options import RuleOptions
from monitor.settings.schedule import Cron, Every, Schedule
from monitor.settings.translation import config_hash, policy_of, to_comparison, to_schedule

__all__ = [
    "ComparisonOptions",
    "Cron",
    "Every",
    "LogOptions",
    "RetentionOptions",
    "RuleOptions",
    "Schedule",
    "Settings",
    "config_hash",
    "config_path",
    "example_text",
    "json_schema",
    "listen_address",
    "load_settings",
    "load_with_rules",
    "parse_settings",
    "policy_of",
    "settings_reference",
    "to_comparison",
    "to_schedule",
]
