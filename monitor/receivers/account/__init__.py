"""What a message says, for every channel the same: `account_of` tells it, receivers lay it out."""

from monitor.receivers.account.parts import Account, ChangeAccount, SideBySide
from monitor.receivers.account.tell import account_of

__all__ = ["Account", "ChangeAccount", "SideBySide", "account_of"]
