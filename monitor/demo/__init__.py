"""`rankwatch demo`: two little recommenders drift apart before your eyes, and the ordinary daemon notices."""

from monitor.demo.environment import run_recommenders
from monitor.demo.run_demo import DaemonFactory, DemoDaemon, run_demo

__all__ = ["DaemonFactory", "DemoDaemon", "run_demo", "run_recommenders"]
