"""A POST of JSON to any URL, signed: the body of Alertmanager's webhooks, version 4.

Whoever takes Alertmanager's webhooks takes these. One request tells one message; `monitor.receivers.webhook.body` has the
body. A message may come twice, then with the same ``Idempotency-Key: <incident>:<digest of what is told>``.

With a secret each request is signed. To verify it: take ``X-Rankwatch-Timestamp`` (Unix seconds of the sending), refuse what
is more than five minutes off, compute the HMAC-SHA256, keyed with the secret, of ``timestamp + "." + body``, and compare
``"sha256=" + hex digest`` with ``X-Rankwatch-Signature`` in constant time, on the raw bytes of the body. `verify` does this.
"""

from monitor.receivers.webhook.options import WebhookOptions
from monitor.receivers.webhook.receiver import Webhook
from monitor.receivers.webhook.signing import verify

__all__ = ["Webhook", "WebhookOptions", "verify"]
