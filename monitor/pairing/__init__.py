"""Pairs the lists of both arms by user, and counts what happened to every user. No I/O."""

from monitor.pairing.pairs import ListedItems, keep_lists, pair, sum_coverage
