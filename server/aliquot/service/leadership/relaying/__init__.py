"""Relaying: servers that follow know what devices measure, because the one that leads tells them by the database."""
