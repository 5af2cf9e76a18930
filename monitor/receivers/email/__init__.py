"""E-mail over SMTP: a mail for each message, one incident one thread.

A mail goes to all of ``to`` in one exchange. Those who are refused for now keep the delivery waiting, and only they are sent
it again; those who are refused for good make it fail for good once everybody else has it, so that somebody hears of it: the
error names them and says that the others have the mail. Which of them have it is remembered in memory; after a restart the
same mail may come twice, then with the same Message-ID.
"""

from monitor.receivers.email.options import EmailOptions
from monitor.receivers.email.receiver import Email

__all__ = ["Email", "EmailOptions"]
