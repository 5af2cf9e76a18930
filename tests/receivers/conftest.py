from servers.alertmanager import make_alertmanager
from servers.pagerduty import pagerduty
from servers.slack import slack
from servers.webhook import collector

__all__ = ["collector", "make_alertmanager", "pagerduty", "slack"]
