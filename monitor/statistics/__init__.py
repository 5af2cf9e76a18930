"""Computes what is normal, when a rollout can be decided, and what changed for which users.

All functions are pure. Rules and alerts are in `monitor.alerts`. Start reading in
`reference/prediction.py`, `sequential/gate.py` and `attribution/faults.py`. Comparisons of arms
that serve different users are in `unpaired`.
"""
