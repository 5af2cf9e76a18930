"""Labels and annotations of an alert, as Prometheus, Alertmanager and receivers of its webhooks know them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from monitor.model import Transition
from monitor.receivers.message.safe_text import clean, description_of, summary_of

_MAX_LABEL = 256
_FNV_OFFSET, _FNV_PRIME, _FNV_MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1
_SEPARATOR = b"\xff"


def alert_labels(transition: Transition) -> dict[str, str]:
    """Labels that name the alert for as long as its rule stands: nothing here changes from run to run, above all no value."""
    ours = {
        "alertname": transition.alert,
        "comparison": transition.comparison,
        "segment": transition.segment,
        "severity": transition.severity.value,
        "metric": transition.metric,
        "statistic": transition.statistic,
    }
    given = {_label_name(name): value for name, value in sorted(transition.labels.items())}
    return {name: clean(value, _MAX_LABEL) for name, value in {**given, **ours}.items()}


def alert_annotations(transition: Transition) -> dict[str, str]:
    """Annotations of one change of the alert; none that would be empty."""
    annotations = {
        "summary": summary_of(transition),
        "description": description_of(transition),
        "explanation": clean(transition.explanation or ""),
        "value": "" if transition.value is None else f"{transition.value:.6g}",
        "threshold": f"{transition.threshold:.6g}",
        "users": str(transition.users),
        "runbook_url": clean(transition.runbook_url or ""),
    }
    return {name: text for name, text in annotations.items() if text}


def label_fingerprint(labels: Mapping[str, str]) -> str:
    """Name of a set of labels as Prometheus has it: 64-bit FNV-1a of its names and values in order, as 16 hex digits."""
    text = b"".join(part.encode() + _SEPARATOR for item in sorted(labels.items()) for part in item)
    digest = _FNV_OFFSET
    for byte in text:
        digest = ((digest ^ byte) * _FNV_PRIME) & _FNV_MASK
    return f"{digest:016x}"


def _label_name(name: str) -> str:
    # The nearest name that Alertmanager accepts: one bad name would make it refuse the alert.
    legal = re.sub(r"[^a-zA-Z0-9_]", "_", clean(name, _MAX_LABEL))
    return legal if re.match(r"[a-zA-Z_]", legal) else f"_{legal}"
