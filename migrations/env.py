"""Alembic's entry: migrates over the connection of monitor.storage.schema_version, inside that connection's transaction."""

from alembic import context

# On SQLite too the schema is changed inside a transaction, since we begin transactions ourselves.
context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
