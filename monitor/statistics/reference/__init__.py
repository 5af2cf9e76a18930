"""Computes what is normal for a series, how surprising its next run is, and thresholds. No I/O.

The columns of every array are m series. A series is a statistic of a metric in a segment. The rows
are past runs, oldest first. The caller sets the values of some runs to NaN, so that they are
ignored: insufficient runs and runs of another configuration.
"""
