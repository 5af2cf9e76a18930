"""Computes what is normal for a series, how unusual its next run is, and thresholds. No I/O.

Every array has one column for each of m series, and one row for each past run. The oldest run is
first. A series is a statistic of a metric in a segment. The caller sets the values of insufficient
runs and of runs of another configuration to NaN, so that they are ignored.
"""
