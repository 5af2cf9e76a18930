"""Analyses for commands: previews, comparisons of files, backtests, sample sizes."""
