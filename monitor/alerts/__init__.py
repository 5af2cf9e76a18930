"""Judges what a run measured, moves the states of alerts, and decides what is sent.

Pure: no I/O, no clock.
"""
