"""Makes decisions that are valid at any time, by bets on means of scores in [0, 1].

docs/explanation/gate.md describes what the decisions guarantee.
"""
