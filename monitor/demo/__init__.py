"""`rankwatch demo`: two small recommenders drift apart while you watch, and the ordinary daemon notices."""

from monitor.demo.session import run_demo, run_recommenders
