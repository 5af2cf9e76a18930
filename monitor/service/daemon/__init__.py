"""The daemon: its schedule, its runs, its deliveries and its lease."""
