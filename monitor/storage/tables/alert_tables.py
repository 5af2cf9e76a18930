"""Tables of alerts: states, transitions, deliveries, notifications and silences."""

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    false,
)

from monitor.model.alerts import Outcome, Removed, State
from monitor.model.notifications import DeliveryStatus
from monitor.model.rules import Direction, Severity
from monitor.storage.column_types import (
    Document,
    Id,
    Instant,
    IntegerColumn,
    Name,
    Number,
    Values,
    Words,
)
from monitor.storage.tables.metadata import (
    closed,
    filled,
    index_where,
    metadata,
    numbered_table,
    optional,
    word_of,
)

alert_states = Table(
    "alert_states",
    metadata,
    *filled(Name, "comparison", "alert", "segment"),
    *closed("state", State),
    *filled(Instant, "since"),
    *filled(Integer, "streak"),
    *filled(Instant, "judged_slot"),
    *closed("outcome", Outcome),
    *filled(Words, "reason"),
    Column("value", Number),
    *filled(IntegerColumn, "users"),
    *filled(Number, "threshold"),
    *closed("severity", Severity),
    *optional(Words, "dedup_key", "incident", "acknowledged_by"),
    PrimaryKeyConstraint("comparison", "alert", "segment"),
    Index(None, "state"),
    sqlite_with_rowid=False,
)

transitions = numbered_table(
    "transitions",
    *filled(Name, "comparison", "alert", "segment"),
    *filled(Instant, "slot", "at"),
    *closed("from_state", State),
    *closed("to_state", State),
    *filled(Words, "reason"),
    Column("value", Number),
    *closed("direction", Direction),
    *filled(Number, "threshold"),
    *filled(IntegerColumn, "users"),
    *filled(Words, "metric", "statistic"),
    *closed("severity", Severity),
    *filled(Instant, "since"),
    *optional(Words, "dedup_key", "runbook_url"),
    *filled(Document, "labels"),
    Column("explanation", Words),
    Column("interval", Values(tuple[float, float])),
    Column("normal", Number),
    Column("incident", Words),
    Column("is_new_normal", Boolean, nullable=False, server_default=false()),
    Column("headline", Words),
    Column("removed", word_of(Removed)),
    Index(None, "comparison", "slot"),
    Index(None, "slot"),
    Index(None, "incident"),
)

deliveries = numbered_table(
    "deliveries",
    Column("transition_id", Id, ForeignKey("transitions.id", ondelete="CASCADE"), nullable=False),
    *filled(Name, "receiver"),
    *closed("status", DeliveryStatus),
    *filled(Integer, "attempts"),
    *filled(Instant, "next_attempt_at"),
    Column("leased_by", Words),
    Column("leased_until", Instant),
    Column("may_be_known", Boolean, nullable=False, server_default=false()),
    Column("reason", Words),
    *optional(Instant, "settled_at", "repeat_at"),
    Column("message_key", Words),
    Column("is_receiver_removed", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("transition_id", "receiver"),
    index_where(
        "status IN ('pending', 'held')",
        "ix_deliveries_waiting",
        "receiver",
        "next_attempt_at",
    ),
    index_where("repeat_at IS NOT NULL", "ix_deliveries_repeated", "receiver", "repeat_at"),
)
"""The outbox: one row for each announced transition and each receiver.

- ``may_be_known``: an attempt may have arrived, but no answer confirms it
- ``reason``: why the delivery is held, failed or was given up
- ``message_key``: key of the message that may have arrived; it is repeated with this key
- ``settled_at``: when the delivery was sent, given up or dropped
- ``repeat_at``: when to send a start again
"""

notifications = numbered_table(
    "notifications",
    Column("delivery_id", Id, ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False),
    *filled(Instant, "at"),
    *closed("status", DeliveryStatus),
    Column("reason", Words),
    Column("next_attempt_at", Instant),
    Column("is_receiver_removed", Boolean, nullable=False, server_default=false()),
    Index(None, "delivery_id"),
)
"""Outcomes of deliveries. An attempt adds a row if it ended differently from the last attempt."""

silences = numbered_table(
    "silences",
    *filled(Values(tuple[str, ...]), "matchers"),
    *filled(Words, "author", "comment"),
    *filled(Instant, "created_at", "starts_at", "ends_at"),
)
"""From ``starts_at`` until ``ends_at``, alerts that match all ``matchers`` are not notified."""
