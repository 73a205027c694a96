"""Alembic environment: runs the revisions on the connection it is given, in that connection's transaction."""

from alembic import context

from aliquot.store.export import ALL_TABLES

context.configure(connection=context.config.attributes["connection"], target_metadata=ALL_TABLES, render_as_batch=True)
context.run_migrations()
