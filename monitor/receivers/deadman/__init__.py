"""Dead-man pings in the manner of Healthchecks: a POST when a run starts, and one when it ends, well or not.

The service on the other side raises the alarm when the pings stay away, and so also when nothing here is able to. Pinged are
``URL/start``, then ``URL`` (a run that is ``ok``) or ``URL/fail`` (any other, with the reason as the body), each with
``?rid=UUID``, the same for both pings of a run. A run that was given back unfinished, or that somebody else has taken over,
ends with no ping. Several comparisons may share a URL, but then one that is well covers up one that is not heard of: give each
its own.
"""

from monitor.receivers.deadman.options import PingOptions
from monitor.receivers.deadman.pinging import DeadMan

__all__ = ["DeadMan", "PingOptions"]
