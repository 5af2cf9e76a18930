"""Rank-biased overlap: extrapolated, its bounds, its ties, and where its weight lies."""
