"""Decisions that are valid at any time: bets on means of scores in [0, 1].

The README in this folder describes what they guarantee.
"""
