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
from monitor.model.rules import Direction, RuleKind, Severity
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
    enum_column,
    enum_type,
    index_where,
    metadata,
    numbered_table,
    optional_columns,
    required_columns,
)

alert_states = Table(
    "alert_states",
    metadata,
    *required_columns(Name, "comparison", "alert", "segment"),
    *enum_column("state", State),
    *required_columns(Instant, "since"),
    *required_columns(Integer, "streak"),
    *required_columns(Instant, "judged_slot"),
    *enum_column("outcome", Outcome),
    *required_columns(Words, "reason"),
    Column("value", Number),
    *required_columns(IntegerColumn, "users"),
    *required_columns(Number, "threshold"),
    *enum_column("severity", Severity),
    *optional_columns(Words, "dedup_key", "incident", "acknowledged_by"),
    PrimaryKeyConstraint("comparison", "alert", "segment"),
    Index(None, "state"),
    sqlite_with_rowid=False,
)

transitions = numbered_table(
    "transitions",
    *required_columns(Name, "comparison", "alert", "segment"),
    *required_columns(Instant, "slot", "at"),
    *enum_column("from_state", State),
    *enum_column("to_state", State),
    *required_columns(Words, "reason"),
    Column("value", Number),
    *enum_column("direction", Direction),
    *required_columns(Number, "threshold"),
    *required_columns(IntegerColumn, "users"),
    Column("kind", enum_type(RuleKind), nullable=False),
    *required_columns(Words, "metric", "statistic"),
    *enum_column("severity", Severity),
    *required_columns(Instant, "since"),
    *optional_columns(Words, "dedup_key", "runbook_url"),
    *required_columns(Document, "labels"),
    Column("explanation", Words),
    Column("interval", Values(tuple[float, float])),
    Column("normal", Number),
    Column("incident", Words),
    Column("is_new_normal", Boolean, nullable=False, server_default=false()),
    Column("headline", Words),
    Column("concerned", IntegerColumn),
    Column("removed", enum_type(Removed)),
    Index(None, "comparison", "slot"),
    Index(None, "slot"),
    Index(None, "incident"),
)

deliveries = numbered_table(
    "deliveries",
    Column("transition_id", Id, ForeignKey("transitions.id", ondelete="CASCADE"), nullable=False),
    *required_columns(Name, "receiver"),
    *enum_column("status", DeliveryStatus),
    *required_columns(Integer, "attempts"),
    *required_columns(Instant, "next_attempt_at"),
    Column("claimed_by", Words),
    Column("claimed_until", Instant),
    Column("may_be_known", Boolean, nullable=False, server_default=false()),
    Column("reason", Words),
    *optional_columns(Instant, "settled_at", "repeat_at"),
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
    *required_columns(Instant, "at"),
    *enum_column("status", DeliveryStatus),
    Column("reason", Words),
    Column("next_attempt_at", Instant),
    Column("is_receiver_removed", Boolean, nullable=False, server_default=false()),
    Index(None, "delivery_id"),
)
"""Outcomes of deliveries. An attempt adds a row if it ended differently from the last attempt."""

silences = numbered_table(
    "silences",
    *required_columns(Values(tuple[str, ...]), "matchers"),
    *required_columns(Words, "author", "comment"),
    *required_columns(Instant, "created_at", "starts_at", "ends_at"),
)
"""From ``starts_at`` until ``ends_at``, alerts that match all ``matchers`` are not notified."""
