"""Prometheus metrics: the endpoint, its access control, and the metric families."""
