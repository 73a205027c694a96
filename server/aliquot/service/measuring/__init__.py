"""Measuring: what the server counts while it works. How that is shown is the business of `api.metrics`."""
