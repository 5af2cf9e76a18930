"""What commands do once: run slots, send test notifications, write metrics and reports."""
