"""Pairs the lists of both arms by user, and counts the outcome for each user. There is no I/O."""
