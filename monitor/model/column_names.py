"""The usual names of columns with users, items and ranks, for the commands and the Python API."""

from collections.abc import Collection, Hashable, Sequence
from difflib import get_close_matches

USER_COLUMNS = (
    "user_id",
    "user",
    "customer_id",
    "customer",
    "member_id",
    "member",
    "query_id",
    "query",
    "uid",
    "visitor_id",
    "account_id",
    "session_id",
)
ITEM_COLUMNS = (
    "item_id",
    "item",
    "product_id",
    "product",
    "sku",
    "article_id",
    "article",
    "iid",
    "movie_id",
    "video_id",
    "track_id",
    "content_id",
    "document_id",
    "doc_id",
)
RANK_COLUMNS = ("rank", "position", "place")


def match_column(names: Sequence[str], present: Collection[Hashable]) -> Hashable:
    """Return the first of these columns that is present, as it is spelled there.

    If there is no column of exactly this name, upper and lower case and underscores are ignored:
    ``UserID`` matches ``user_id``. If no column matches, return the first name.
    """
    present = list(present)  # a list, because a name may be unhashable
    for name in names:
        if name in present:
            return name
        for column in present:
            if _plain(column) == _plain(name):
                return column
    return names[0]


def _plain(name: Hashable) -> str:
    return str(name).lower().replace("_", "")


def find_column(name: Hashable, present: Collection[Hashable]) -> Hashable:
    """Return the column of that name, or of another usual name (``user_id`` for ``user``)."""
    for names in (USER_COLUMNS, ITEM_COLUMNS, RANK_COLUMNS):
        if name in names:
            return match_column((str(name), *names), present)
    return name


def write_absent(name: Hashable, present: Collection[Hashable]) -> str:
    """Describe an absent column, as in ``'contry' (did you mean 'country'?); found 'country'``."""
    near = get_close_matches(str(name), list(map(str, present)), n=1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{name!r}{meant}; found {', '.join(map(repr, list(present)[:10])) or 'no columns'}"
