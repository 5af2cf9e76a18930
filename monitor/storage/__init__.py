"""The database: SQLite or PostgreSQL behind the port Store. Runs, scores, alert states, the outbox; the schema's versions."""

from monitor.storage.database_url import absolute_url, parse_url
from monitor.storage.leases import open_leases
from monitor.storage.sqlite_file import exposure
from monitor.storage.store import SqlStore, open_store, opened_store, unopened_store
