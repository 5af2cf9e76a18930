"""Aligns lists and codes texts, either by numpy and Arrow or by machine code."""
