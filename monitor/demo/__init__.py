"""The command `rankwatch demo`. Two recommenders drift apart, and the daemon notices this."""

from monitor.demo.session import run_demo, run_recommenders
