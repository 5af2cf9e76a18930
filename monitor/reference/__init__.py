"""What is normal for a series, how surprising its next run is, and how often that may page falsely. No I/O.

m series (a statistic of a metric over a segment) are the columns of every array, past runs the rows, oldest first; runs that
do not count (in alarm, insufficient, of another configuration) the caller makes NaN.
"""
