"""Alembic's scripts. A new revision is also named in `aliquot.store.migration.REVISIONS`."""
