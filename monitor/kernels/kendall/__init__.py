"""Pairs of items in the same and in opposite order: Kendall, and what was made of it."""
