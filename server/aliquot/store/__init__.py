"""Durable state: one store for SQLite and PostgreSQL, with the event log, the archive and schema migrations."""
