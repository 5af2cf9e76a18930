"""The words of rankwatch as frozen dataclasses, the ports, and the tree of errors. No I/O.

Sentences are in `monitor.texts`. Start reading in `runs.py`, `rules.py` and `ports`.
"""
