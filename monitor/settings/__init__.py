"""The YAML language: one file becomes typed settings, or a list of everything that is wrong with it."""

from monitor.settings.cron import Cron
from monitor.settings.example import example_text
from monitor.settings.loading import listens_at, load, loads, locate
from monitor.settings.models import ComparisonOptions, LogOptions, Settings
from monitor.settings.reference import reference
from monitor.settings.retention_options import RetentionOptions
from monitor.settings.rule_options import RuleOptions
from monitor.settings.schedule import Every, Schedule
from monitor.settings.schema import json_schema
from monitor.settings.swapping import load_with_rules
from monitor.settings.translating import config_hash, policy_of, to_comparison, to_schedule

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
    "example_text",
    "json_schema",
    "listens_at",
    "load",
    "load_with_rules",
    "loads",
    "locate",
    "policy_of",
    "reference",
    "to_comparison",
    "to_schedule",
]
