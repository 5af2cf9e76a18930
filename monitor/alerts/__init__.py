"""From what a run measured to verdicts, states and transitions, and what is sent of these.

Pure: no I/O, no clock.
"""
