"""Series for Prometheus: the results of each comparison's newest run, and the daemon's state."""
