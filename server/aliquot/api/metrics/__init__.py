"""Metrics: what Prometheus scrapes, and who may."""
