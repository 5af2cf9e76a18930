"""Apprise, an extra: chat and mail services that have no receiver of their own here, each named by one of Apprise's URLs.

Each URL is told by itself. A URL that did not take a message is tried again, and those that did are not told twice; who has
it is remembered in memory, so after a restart they may be. Whatever is not a plain success is a failure, and none is
permanent, for Apprise does not tell why.
"""

from monitor.receivers.apprise.options import AppriseOptions
from monitor.receivers.apprise.receiver import AppriseReceiver

__all__ = ["AppriseOptions", "AppriseReceiver"]
