"""The command `rankwatch demo`. Two recommenders drift apart, and the normal daemon notices it."""

from monitor.demo.session import run_demo, run_recommenders
