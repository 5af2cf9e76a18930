"""The content of a message, the same for every channel, and the text, labels and keys that it is made of."""

from monitor.receivers.message.content import content_of
from monitor.receivers.message.sections import ChangeContent, MessageContent, SideBySide

__all__ = ["ChangeContent", "MessageContent", "SideBySide", "content_of"]
