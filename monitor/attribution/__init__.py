"""Why a mean fell: each user's lists held against the same user's before, and what happened to them. No I/O, no metric.

A run does `split_distances` and, where earlier lists are kept, `compare_pairs`, both per user; `decompose_drop` adds up by
part and segment, `find_fault` says what happened and to whom.
"""
