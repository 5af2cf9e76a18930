"""From per-user scores to what is shown and judged, and which users' lists are kept to be read. No I/O."""

from monitor.summaries.evidence import choose_evidence
from monitor.summaries.summarize import Segments, rows_of_segments, summarize

__all__ = ["Segments", "choose_evidence", "rows_of_segments", "summarize"]
