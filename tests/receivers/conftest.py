from servers.alertmanager import make_alertmanager
from servers.webhook import collector

__all__ = ["collector", "make_alertmanager"]
