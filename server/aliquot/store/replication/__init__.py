"""Replication: the leadership lock on PostgreSQL, and the row that carries device readings to followers."""
