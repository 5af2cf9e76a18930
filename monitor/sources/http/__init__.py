"""Lists from a recommender over HTTP, one request a user."""

from monitor.sources.http.options import HttpSourceOptions
from monitor.sources.kinds import Reader, SourceKind

HTTP = SourceKind(
    lists=Reader(
        HttpSourceOptions, "monitor.sources.http.source:HttpSource", "A recommender asked over HTTP, one request a user."
    ),
    has_scores=lambda options: options.scores is not None,
    all_users=None,
    users=None,
    item_weights=None,
    item_titles=None,
    relevance=None,
)
