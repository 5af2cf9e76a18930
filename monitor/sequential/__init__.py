"""Decisions that stay valid however often one looks: bets on means of scores in [0, 1].

What they promise: README beside.
"""
