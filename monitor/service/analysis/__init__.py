"""Analyses behind commands: previews, comparisons of files, backtests, suggested thresholds, sample sizes. They only read."""
