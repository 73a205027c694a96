"""Audit: changes with their authors, and the holders of each device over time."""
