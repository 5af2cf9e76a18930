"""Benchmarks: each module's `run` measures ours beside what a user would use instead, in one process run. `make bench`."""
