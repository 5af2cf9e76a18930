"""Measures how similar two lists are. This room can be used as a library without the daemon.

The room reads ids and lists, pairs the lists of both arms, and computes and summarizes the metrics.
`frames` is the interface for Python. `monitor.statistics` computes which scores are normal. Start
reading in `metrics/metric.py` and `kernels/alignment.py`.
"""
