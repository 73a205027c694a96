"""Auditing: the record of what happened, for operators."""
