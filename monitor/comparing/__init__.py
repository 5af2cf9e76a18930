"""Comparing rankings from Python: one pair, or many users' lists in whatever shape they are at hand. No daemon, no database."""

from monitor.comparing.many import compare_many
from monitor.comparing.one import compare
from monitor.comparing.summary import summarize

__all__ = ["compare", "compare_many", "summarize"]
