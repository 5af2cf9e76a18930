"""`rankwatch demo`: two little recommenders drift apart before your eyes, and the ordinary daemon notices."""

from monitor.demo.recommending import run_recommenders
from monitor.demo.run import Daemon, DaemonFactory, run_demo

__all__ = ["Daemon", "DaemonFactory", "run_demo", "run_recommenders"]
