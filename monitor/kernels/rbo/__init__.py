"""Rank-biased overlap (RBO): extrapolated, its bounds, and its variants for ties."""
