from servers.alertmanager import make_alertmanager
from servers.pagerduty import pagerduty
from servers.slack import slack
from servers.smtp import certificate, mail_server
from servers.webhook import collector

__all__ = ["certificate", "collector", "mail_server", "make_alertmanager", "pagerduty", "slack"]
