"""From per-user scores to what is shown and judged, and which users' lists are kept to be read. No I/O."""

from monitor.summaries.evidence import choose_evidence
from monitor.summaries.summarize import summarize

__all__ = ["choose_evidence", "summarize"]
