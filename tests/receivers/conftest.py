from servers.alertmanager import make_alertmanager
from servers.smtp import certificate, mail_server
from servers.webhook import collector

__all__ = ["certificate", "collector", "mail_server", "make_alertmanager"]
