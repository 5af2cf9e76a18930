"""Defines the words of rankwatch as frozen dataclasses, the ports, and the errors. It does no I/O.

`monitor.texts` writes sentences from these values. Start reading in `runs.py`, `rules.py` and
`ports`.
"""
