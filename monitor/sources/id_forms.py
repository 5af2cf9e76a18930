"""Canonical forms of ids, see `monitor.model.id_forms`."""

from monitor.model.id_forms import Forms, speller

__all__ = ["Forms", "speller"]
