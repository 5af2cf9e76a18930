"""PagerDuty, Events API v2: an incident here is an alert there, under the incident's key.

https://developer.pagerduty.com/docs/events-api-v2-overview
"""

from monitor.receivers.pagerduty.options import PagerDutyOptions
from monitor.receivers.pagerduty.receiver import PagerDuty

__all__ = ["PagerDuty", "PagerDutyOptions"]
