"""Alembic's entry: migrates over the connection of monitor.storage.schema_version, inside that connection's transaction."""

from typing import Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext

from monitor.storage.partitions import is_of_dialect, without_partitions
from monitor.storage.tables import metadata

# A migration spells out its types: it must stay as it is when those of the program change.
SPELLED = {
    "Name": 'sa.Text().with_variant(sa.Text(collation="C"), "postgresql")',
    "Words": "sa.Text()",
    "Instant": 'sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")',
    "Number": "sa.Double()",
    "Count": "sa.Integer()",
    "Member": "sa.String(20)",
    "Document": 'sa.JSON().with_variant(postgresql.JSONB(), "postgresql")',
}


def spell(kind: str, item: object, autogen: AutogenContext) -> str | Literal[False]:
    if kind == "type" and type(item).__name__ == "Document":
        autogen.imports.add("from sqlalchemy.dialects import postgresql")
    return SPELLED.get(type(item).__name__, False) if kind == "type" else False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    compare_server_default=True,
    render_as_batch=True,  # SQLite changes a table by copying it
    include_name=without_partitions(context.config.attributes["connection"]),
    include_object=is_of_dialect(context.config.attributes["connection"]),
    render_item=spell,
    transactional_ddl=True,  # on SQLite too, since we begin transactions ourselves
)
with context.begin_transaction():
    context.run_migrations()
