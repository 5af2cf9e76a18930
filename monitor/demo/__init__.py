"""`rankwatch demo`: two small recommenders drift apart while you watch, and the ordinary daemon notices."""

from monitor.demo.environment import run_recommenders
from monitor.demo.session import run_demo
