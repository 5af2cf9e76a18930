"""What commands do: run slots, send test notifications, write metrics and reports."""
