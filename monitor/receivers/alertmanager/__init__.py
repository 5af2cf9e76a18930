"""Prometheus Alertmanager, API v2: one receiver a peer, since peers must each be told.

An alert is told when it begins to fire, again every ``resend_every`` while it fires, and when it ends. Like Prometheus, a
firing alert carries an end four resends ahead (five minutes at least), so that it ends there by itself when nobody tells it
any more, and survives a restart of this daemon.
"""

from monitor.receivers.alertmanager.alert import alert_of
from monitor.receivers.alertmanager.options import AlertmanagerOptions
from monitor.receivers.alertmanager.receiver import Alertmanager, open_alertmanager

__all__ = ["Alertmanager", "AlertmanagerOptions", "alert_of", "open_alertmanager"]
