"""Slack, by an incoming webhook: the channel is the webhook's own, so nothing in a message can choose another.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
"""

from monitor.receivers.slack.options import SlackOptions
from monitor.receivers.slack.receiver import Slack

__all__ = ["Slack", "SlackOptions"]
