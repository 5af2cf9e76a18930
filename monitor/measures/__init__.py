"""How similar two lists are. This room is usable alone as a library.

Here are ids, pairs, kernels, metrics, summaries, and the Python interface in `frames`. What is normal
is in `monitor.statistics`. Start reading in `metrics/metric.py` and `kernels/alignment.py`.
"""
