"""The daemon: its schedule, its runs, its delivery loops, its lease and its watchdog."""
