"""Version 1 of the names that packages with sources, metrics or receivers may import.

Such packages must import nothing else of `monitor`.
"""

from monitor.boundary.options import NOT_IN_HASH, ConfigPath, Duration, Options
from monitor.measures.kernels import Alignment
from monitor.measures.metrics.metric import Correlation, Distance, Metric, Need, Similarity
from monitor.model.errors import DeliveryError, SourceError
from monitor.model.notifications import Message, Treatment, Updates
from monitor.model.rankings import CoverageReason
from monitor.model.runs import PullRequest
from monitor.receivers.message.content import content_of
from monitor.receivers.message.plain_text import plain_text
from monitor.receivers.receiver_options import ReceiverEntry
from monitor.sources.kinds import Reader, SourceKind
from monitor.sources.list_collector import ListCollector
from monitor.sources.tables import MissingTableError, Table

__all__ = [
    "NOT_IN_HASH", "Alignment", "ConfigPath", "Correlation", "CoverageReason", "DeliveryError", "Distance", "Duration",
    "ListCollector", "Message", "Metric", "MissingTableError", "Need", "Options", "PullRequest", "Reader",
    "ReceiverEntry", "Similarity", "SourceError", "SourceKind", "Table", "Treatment", "Updates", "content_of",
    "plain_text",
]  # fmt: skip
