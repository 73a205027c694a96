"""Queries: the read side of the API."""
