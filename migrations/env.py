"""Alembic's entry: migrates in the transaction of the connection of schema_version."""

from alembic import context

from monitor.storage.tables.metadata import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,  # whose conventions name what a migration leaves unnamed
    transactional_ddl=True,  # on SQLite too, since we begin transactions ourselves
)
with context.begin_transaction():
    context.run_migrations()
