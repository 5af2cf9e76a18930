"""`rankwatch demo`: two recommenders drift apart, and the normal daemon notices."""

from monitor.demo.session import run_demo, run_recommenders
