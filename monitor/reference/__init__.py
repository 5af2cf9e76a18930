"""What is normal for a series, how surprising its next run is, and how often that may page falsely. No I/O.

A series is one statistic of one metric over one segment; m series are the columns of every array, past runs the rows, oldest
first. Which runs count is the caller's choice: it leaves out those in alarm, insufficient or of another configuration (NaN).
"""
