"""Why a mean fell: compares each user's lists with the user's earlier lists. No I/O.

A run calls `split_distances` and, with earlier lists, `compare_pairs` for each user.
`decompose_drop` adds up by part and segment. `find_fault` finds what happened, and to which users.
"""
