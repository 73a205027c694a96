"""The durable state: one repository for SQLite and PostgreSQL, the event log, and how the schema grows."""
