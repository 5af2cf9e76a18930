"""Decisions that stay valid however often one looks: bets on bounded means. No I/O.

Scores are bounded and stand on the unit interval (`Scale`). Nothing is assumed of their distribution; what is assumed of how
users were drawn, and what a promise covers, stands in the README beside this file.
"""
