"""Secrets: stored for sessions by their owners, and handed to agents with the orders that need them."""
