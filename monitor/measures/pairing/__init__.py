"""Pairs the lists of both arms by user, and counts the outcome for each user. There is no I/O."""

from monitor.measures.pairing.pairs import ListedItems, count_coverage, pair_users
