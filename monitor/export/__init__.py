"""Makes series for Prometheus from the newest runs of comparisons and from the daemon's state."""
