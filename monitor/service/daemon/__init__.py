"""The daemon: its schedule, its runs, its delivery loops, its lease, and what watches over them."""
