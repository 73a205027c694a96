"""How Alembic runs the revisions: on the connection that it is handed, in that connection's transaction."""

from alembic import context

from aliquot.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, render_as_batch=True)
context.run_migrations()
