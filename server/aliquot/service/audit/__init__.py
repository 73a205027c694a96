"""Audit: changes, device holdings and scheduling decisions, for operators."""
