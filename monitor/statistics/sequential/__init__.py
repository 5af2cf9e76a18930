"""Makes decisions that are valid at any time, by bets on means of scores in [0, 1].

The README in this folder describes what the decisions guarantee.
"""
