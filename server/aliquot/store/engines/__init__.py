"""Database engines: SQLite and PostgreSQL behind one interface."""
