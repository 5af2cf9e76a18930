"""The content of a message, the same for every channel, and the text, labels and keys that it is made of."""

from monitor.receivers.message.content import ChangeContent, MessageContent, content_of
from monitor.receivers.message.explanation_text import SideBySide
