"""Alembic scripts. A new revision is also listed in `aliquot.store.migration.REVISIONS`."""
