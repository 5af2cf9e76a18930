"""Explains why a mean fell. It compares each user's lists with the user's earlier lists. No I/O.

A run calls `split_distances` for the paired users of its subset, see `users_in_subset`. If it has
earlier lists, it also calls `compare_pairs`. `decompose_drop` adds up the changes by part and
segment. `find_fault` finds the fault that explains the fall best, and the users that the fault
affected.
"""
