"""The composition root: wiring, the daemon and its loops, reload, shutdown, replay."""
