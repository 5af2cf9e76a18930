"""Series for Prometheus: results of each comparison's newest run, and the daemon's state."""
