"""Analyses for commands: previews, comparisons of files, backtests and sample sizes. Read-only."""
