"""Rank-biased overlap (RBO): the extrapolated value, its bounds, and variants for ties."""
