"""How Alembic runs the revisions: on the connection that it is handed, in that connection's transaction."""

from alembic import context

from aliquot.store.all_tables import ALL_TABLES

context.configure(connection=context.config.attributes["connection"], target_metadata=ALL_TABLES, render_as_batch=True)
context.run_migrations()
