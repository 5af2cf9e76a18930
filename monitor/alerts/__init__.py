"""Verdicts, states and transitions from what a run measured, and which of them are sent.

Pure: no I/O, no clock.
"""
