"""Validation: checks of a request before a session is queued."""
