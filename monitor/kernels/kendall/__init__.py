"""Pairs of items in the same and in opposite order: Kendall's tau and its variants."""
