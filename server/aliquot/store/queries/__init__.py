"""Queries of events and sessions."""
