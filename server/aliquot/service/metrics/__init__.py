"""Metrics: counters and histograms of the server. `api.metrics` exports them."""
