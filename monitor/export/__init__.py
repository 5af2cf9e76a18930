"""Shows rankwatch to Prometheus: what each comparison last found, and how the daemon itself is doing."""
