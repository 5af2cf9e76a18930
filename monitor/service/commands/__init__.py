"""What commands do once and then end: run slots, send test notifications, write metrics to files."""
