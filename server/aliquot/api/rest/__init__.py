"""REST API: a thin JSON layer over the use cases, for scripts."""
