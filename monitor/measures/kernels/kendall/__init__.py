"""Kendall's tau and its variants: how many pairs of items are in opposite order in two lists."""
