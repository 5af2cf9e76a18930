"""Judges what a run measured, moves the states of alerts, and decides what is sent.

The functions are pure. They use no I/O and no clock.
"""
