"""What is normal for a series, how surprising its next run is, and thresholds. No I/O.

Columns of every array are m series (a statistic of a metric in a segment). Rows are past runs,
oldest first. The caller sets runs to NaN that do not count: in alarm, insufficient, or of another
configuration.
"""
