"""Secrets at rest: encrypted rows, and the file with the keys."""
